"""`pdflow app`: open a file in the browser, denoise it, compare, download.

Two processes. The server (`server`, `gate`, `shelf`, `uploads`, `jobs`) answers the browser and
never looks into a file. The worker (`worker`, `tasks`) reads, denoises and writes; it may crash or
be killed at any time, and the server starts another one. `page/` is the page around the viewer.
"""
