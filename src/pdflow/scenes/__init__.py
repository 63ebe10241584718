"""Made scenes: surfaces, how scanners take points of them, and the errors scanners make.

    surfaces   procedural meshes with random parameters, by name
    scanners   points of a surface as a scanner takes them, by name
    errors     noise, mixed pixels and outliers on a scan
    cases      named combinations of all three: `make_case(kind, seed)`

Everything is decided by integer seeds. Seeds below `cases.HELD_OUT_SEEDS` are for training, the
others are held out for tests.
"""
