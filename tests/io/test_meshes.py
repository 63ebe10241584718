"""OFF, OBJ and STL: exact round trips, the dialects, and one sentence for damaged files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pdflow import TriangleMesh, read_mesh, write_mesh
from pdflow.errors import LossWarning, PdflowError

CUBE_QUADS = [
    [0, 3, 2, 1],
    [4, 5, 6, 7],
    [0, 1, 5, 4],
    [1, 2, 6, 5],
    [2, 3, 7, 6],
    [3, 0, 4, 7],
]
CUBE_CORNERS = [
    [0, 0, 0],
    [1, 0, 0],
    [1, 1, 0],
    [0, 1, 0],
    [0, 0, 1],
    [1, 0, 1],
    [1, 1, 1],
    [0, 1, 1],
]


def cube() -> TriangleMesh:
    quads = np.array(CUBE_QUADS)
    return TriangleMesh(CUBE_CORNERS, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]))


def is_closed(mesh: TriangleMesh) -> bool:
    """Every directed edge is met exactly once by its reverse."""
    edges = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    forward = {tuple(e) for e in edges.tolist()}
    return len(forward) == len(edges) and forward == {(b, a) for a, b in forward}


def text_file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("suffix", ["off", "obj"])
def test_text_meshes_keep_every_bit(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    vertices = rng.normal(size=(50, 3)) * 10.0 ** rng.integers(-300, 300, (50, 3))
    vertices[0] = [5e6 + 1e-4, -0.0, 5e-324]
    mesh = TriangleMesh(vertices, rng.integers(0, 50, (80, 3)))
    path = tmp_path / f"mesh.{suffix}"
    write_mesh(path, mesh)
    back = read_mesh(path)
    assert back.vertices.tobytes() == mesh.vertices.tobytes()
    assert back.faces.tolist() == mesh.faces.tolist()


def test_stl_comes_back_closed_with_the_same_triangles(tmp_path: Path) -> None:
    path = tmp_path / "cube.stl"
    write_mesh(path, cube())
    back = read_mesh(path)
    assert is_closed(back)
    assert len(back.vertices) == 8
    np.testing.assert_array_equal(back.triangles, cube().triangles)


def test_stl_holds_float32(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    mesh = TriangleMesh(rng.normal(size=(60, 3)), np.arange(60).reshape(20, 3))
    path = tmp_path / "soup.stl"
    write_mesh(path, mesh)
    back = read_mesh(path)
    np.testing.assert_array_equal(back.triangles, mesh.triangles.astype(np.float32))
    assert back.faces.tolist() == mesh.faces.tolist()  # vertices numbered as they appear


def test_losses_of_stl_are_named(tmp_path: Path) -> None:
    far = TriangleMesh(cube().vertices + np.array([5e5, 5e6 + 0.1, 0]), cube().faces)
    with pytest.warns(LossWarning, match=r"STL cannot hold coordinates beyond single precision"):
        write_mesh(tmp_path / "far.stl", far)


@pytest.mark.parametrize("suffix", ["off", "obj", "stl", "ply", "glb"])
def test_mesh_without_faces_is_not_written(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(PdflowError, match="no faces"):
        write_mesh(tmp_path / f"a.{suffix}", TriangleMesh(np.eye(3), np.empty((0, 3))))
    assert not list(tmp_path.iterdir())


def test_stl_writes_unit_facet_normals_and_zero_for_slivers(tmp_path: Path) -> None:
    path = tmp_path / "two.stl"
    write_mesh(path, TriangleMesh([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2], [0, 0, 1]]))
    facets = np.frombuffer(path.read_bytes()[84:], np.dtype([("n", "<f4", 3), ("_", "V38")]))
    assert facets["n"].tolist() == [[0, 0, 1], [0, 0, 0]]


def test_stl_refuses_coordinates_beyond_float32(tmp_path: Path) -> None:
    path = tmp_path / "far.stl"
    with pytest.raises(PdflowError, match="float32"):
        write_mesh(path, TriangleMesh([[1e300, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))
    assert list(tmp_path.iterdir()) == []


def test_text_stl_of_several_solids(tmp_path: Path) -> None:
    facets = "".join(
        "  facet normal 0 0 nan(ind)\n    OUTER LOOP\n"
        + "".join(f"      vertex {x:e} {y} {z}\n" for x, y, z in corners)
        + "    endloop\n  endfacet\n"
        for corners in cube().triangles[:6].astype(int).tolist()
    )
    rest = facets.replace("OUTER LOOP", "outer loop")
    path = text_file(
        tmp_path,
        "cube.stl",
        f"solid half a solid\n{facets}endsolid half a solid\r\nSOLID\n{rest}endsolid",
    )
    mesh = read_mesh(path)
    assert len(mesh.vertices) == 8
    np.testing.assert_array_equal(mesh.triangles[:6], cube().triangles[:6])
    np.testing.assert_array_equal(mesh.triangles[6:], cube().triangles[:6])


def test_binary_stl_may_start_with_solid(tmp_path: Path) -> None:
    path = tmp_path / "cube.stl"
    write_mesh(path, cube())
    path.write_bytes(b"solid" + path.read_bytes()[5:])
    assert is_closed(read_mesh(path))


def test_negative_zero_and_zero_are_one_vertex(tmp_path: Path) -> None:
    path = tmp_path / "fold.stl"
    write_mesh(path, TriangleMesh([[0, 0, 0], [-0.0, 0, 0], [0, 1, 0], [1, 0, 0]], [[0, 2, 3]] * 2))
    assert len(read_mesh(path).vertices) == 3


@pytest.mark.parametrize(
    "header",
    ["OFF\n8 6 0", "OFF 8 6 12", "OFF8 6 0", "# made by hand\nOFF # keyword\n\n8 6", "COFF\n8 6 0"],
)
def test_off_headers(tmp_path: Path, header: str) -> None:
    colour = " 255 0 0 255" if header.startswith("COFF") else ""
    vertices = "\n".join(f"{x} {y} {z}{colour}" for x, y, z in CUBE_CORNERS)
    faces = "\n".join("4 " + " ".join(map(str, q)) + " 0.5 0.5 0.5 # red" for q in CUBE_QUADS)
    mesh = read_mesh(text_file(tmp_path, "cube.off", f"{header}\n{vertices}\n# faces\n{faces}\n"))
    assert mesh.vertices.tolist() == CUBE_CORNERS
    assert mesh.faces[:2].tolist() == [[0, 3, 2], [0, 2, 1]]
    assert is_closed(mesh)


def test_off_polygons_become_fans_in_order(tmp_path: Path) -> None:
    text = "NOFF\n5 4 0\n" + "0 0 0 0 0 1\n" * 5 + "3 0 1 2\n5 4 3 2 1 0\n2 0 1\n3 2 3 4\n"
    mesh = read_mesh(text_file(tmp_path, "fans.off", text))
    assert mesh.faces.tolist() == [[0, 1, 2], [4, 3, 2], [4, 2, 1], [4, 1, 0], [2, 3, 4]]


def test_obj_dialects(tmp_path: Path) -> None:
    text = """\
# a comment
mtllib some.mtl
o thing
v 0 0 0 1.0
v 1 0 0 0.2 0.3 0.4
v 1 1 0
vt 0 0
vn 0 0 1
f 1/1/1 2/1/1 3//1
v 0 1 0   # a late vertex
f -4 -2 -1
f 1 2 \\
  3 4
usemtl red
l 1 2
"""
    mesh = read_mesh(text_file(tmp_path, "mesh.obj", text))
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2], [0, 2, 3]]


TRIANGLE_OFF = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
TRIANGLE_STL = (
    "solid t\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
    "endloop\nendfacet\nendsolid t\n"
)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.off", "PLY\n", "line 1 does not start with OFF"),
        ("a.off", "OFF BINARY\n", "binary OFF"),
        ("a.off", "OFF\n", "line 2 is not a count"),
        ("a.off", "OFF\nthree 1 0\n", "line 2 is not a count"),
        ("a.off", "OFF\n-3 1 0\n", "line 2 is not a count"),
        ("a.off", TRIANGLE_OFF.replace("1 0 0\n0 1", "1 zero 0\n0 1"), "line 4 is not a vertex"),
        ("a.off", TRIANGLE_OFF.replace("1 0 0\n0 1", "1 0\n0 1"), "line 4 is not a vertex"),
        ("a.off", TRIANGLE_OFF.replace("3 0 1 2", "3 0 1"), "line 6 is not a face of 3 corners"),
        ("a.off", TRIANGLE_OFF.replace("3 0 1 2", "3 0 1 b"), "line 6 is not a face"),
        ("a.off", TRIANGLE_OFF.replace("3 0 1 2", "3 0 1 3"), "line 6 has a face"),
        ("a.off", TRIANGLE_OFF.replace("3 0 1 2", "3 0 1 -1"), "line 6 has a face"),
        ("a.off", TRIANGLE_OFF.replace("3 0 1 2", f"3 0 1 {10**30}"), "line 6 has a face"),
        ("a.off", TRIANGLE_OFF.replace("3 1 0", f"{10**15} 1 0"), "ends after 4"),
        ("a.off", TRIANGLE_OFF.replace("3 1 0", f"3 {10**30} 0"), "ends after 1"),
        ("a.off", TRIANGLE_OFF + "3 0 1 2\n", "line 7 comes after"),
        ("a.off", TRIANGLE_OFF.replace("1 0 0\n0 1", "inf 0 0\n0 1"), "vertex 1 is not finite"),
        ("a.off", TRIANGLE_OFF.replace("3 1 0", "0_3 1 0"), "line 2 is not a count"),
        ("a.off", TRIANGLE_OFF.replace("1 0 0\n0 1", "1_0 0 0\n0 1"), "line 4 is not a vertex"),
        ("a.off", TRIANGLE_OFF.replace("3 0 1 2", "3 0 1 0_2"), "line 6 is not a face"),
        ("a.off", TRIANGLE_OFF.replace("3 0 1 2", "0_3 0 1 2"), "line 6 is not a face"),
        ("a.obj", "v 1_0 0 0\n", "line 1 is not a vertex"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0_3\n", "line 4 is not a face"),
        ("a.stl", TRIANGLE_STL.replace("1 0 0", "1_0 0 0"), "line 5 is not part of a facet"),
        ("a.obj", "not a mesh\n", "no vertices"),
        ("a.obj", "v 0 0\n", "line 1 is not a vertex"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2\n", "line 4 is not a face of three"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "line 4 is not a face of three"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 x\n", "line 4 is not a face"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "line 4 has a face"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -4\n", "line 4 has a face"),
        ("a.stl", TRIANGLE_STL.replace("endsolid t\n", ""), "solid at line 1 has no endsolid"),
        ("a.stl", TRIANGLE_STL.replace("1 0 0", "1 0 o"), "line 5 is not part of a facet"),
        ("a.stl", TRIANGLE_STL.replace("vertex 0 1 0\n", ""), "line 6 is not part of a facet"),
        ("a.stl", TRIANGLE_STL.replace("endfacet\n", ""), "line 8 is not part of a facet"),
        ("a.stl", TRIANGLE_STL + "and more", "line 9 is not the start of a solid"),
        ("a.stl", "solid", "line 1 is not the start of a solid"),
        ("a.stl", "x" * 84, "neither text STL nor binary STL"),
    ],
)
def test_damaged_meshes_give_file_and_line(
    tmp_path: Path, name: str, text: str, expected: str, refused: Callable[..., None]
) -> None:
    refused(tmp_path / name, text, expected, read_mesh)


@pytest.mark.parametrize("count", [0, 11, 13, 2**32 - 1])
def test_binary_stl_with_a_wrong_count(
    tmp_path: Path, count: int, refused: Callable[..., None]
) -> None:
    path = tmp_path / "cube.stl"
    write_mesh(path, cube())
    data = path.read_bytes()
    changed = data[:80] + count.to_bytes(4, "little") + data[84:]
    refused(path, changed, f"binary STL of {count} facets", read_mesh)
