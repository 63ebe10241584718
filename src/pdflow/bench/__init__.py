"""The tables of the paper, one command each: our models, references and other tools (peers).

    cases      the input of a method: a noisy cloud and its ground truth, in cells of a table
    methods    what denoises: two functions, load and denoise
    tables     one module per table: its cells and its methods
    runner     every cell x shape x method, once; results are stored line by line
    layout     means as a grid beside published numbers; `writers` turn it into text
    report     all tables of a folder in one document, and whether the paper's trends hold

The rest of the package imports nothing from here, and a peer is imported only when it runs.
"""
