"""Tiles: clouds larger than memory, denoised part by part, on one machine or many.

    index     read the inputs once, and sort their points into cells on disk
    survey    decide noise, plan and the limit for outliers, from a sample of cells
    stages    find outliers, make each pass, limit motion: tile by tile, each with a halo
    assemble  read the inputs again, and write each with its clean points

A tile is a group of cells of about a million points. A stage of a tile reads the state that the
stage before left of this tile and its neighbours, and writes a file of its own. So nothing is
computed twice at borders, tiles may be done in any order and by any process, and what exists on
disk says what is done.
"""
