"""A page that shows clouds before and after denoising, in a browser, a notebook or a file.

    from pdflow import view
    view(noisy, denoised).save("page.html")

`channels` says what points can be coloured by, `scene` which points are shown, `pack` makes bytes
of it, `document` the HTML around them, `serve` brings it to a browser. `page/` holds the page
itself: plain ES modules, without a build step and without a request to anywhere.
"""
