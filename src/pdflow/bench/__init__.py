"""The paper's tables, one command each: our models, references and the peers, side by side.

    cases      what a method is given: a noisy cloud and its ground truth, in cells of a table
    methods    who denoises: two functions, load and denoise
    tables     one module per table: its cells and its methods
    runner     every cell x shape x method, once: results are stored line by line
    layout     means as a grid beside published numbers; `writers` make text of it
    report     all tables of a folder in one document, with the paper's trends judged by figures

Nothing here is imported by the rest of the package, and no peer is imported before it is run.
"""
