"""The normalizing flow, written as the paper's equations; everything faster is tested against it.

| paper | here |
|---|---|
| Eq. (1), (3): z = f(h) and back, for h = [p, p_bar] | `block.Flow` |
| Eq. (2), (8) to (14): filters psi | `filters` |
| Eq. (4): f is a chain of bijections | `bijection.Chain`, `block.Block` |
| Eq. (5), (20): log-determinants | `bijection.Bijection` |
| Eq. (6), (18), (19): the augmentation p_bar and its density | `augment` |
| Table 5: coupling, actnorm, invertible 1x1 convolution | `coupling`, `actnorm`, `permutation` |
| Eq. (21), Tables 6 and 7: EdgeUnit and LinearUnit | `units` |

**Which implementation is the truth.** The flow is computed in four ways; this package defines it.
`transform` and `untransform` of each bijection, on the torch twins of `pdflow.kernels`, are the
definition: `tests/contracts/test_bijections.py` checks every one in float64 against the Jacobian
of autograd (`test_log_det_is_that_of_the_full_jacobian`) and against its inverse
(`test_inverse_undoes_forward`). The other three are checked against it:

- The fused `block.Flow` against the chain of its layers: `test_a_flow_is_the_chain_of_its_layers`
  in `tests/flow/test_block.py`. The fused `augment.GatedFlow.sample` against its chain:
  `test_samples_have_the_density_of_the_chain_of_layers` in `tests/flow/test_layers.py`.
- The Triton kernels against the twins, values and gradients: in `tests/kernels/*/test_triton*.py`,
  such as `test_values_and_gradients_equal_the_twin`. The twins against the tables written out:
  `test_graph_layers_of_an_edge_unit_equal_the_table_written_out` and
  `test_condition_nets_equal_their_definition` in `tests/flow/test_layers.py`.
- The compiled CPU network (`pdflow.backends.compiled`) against `PDFlow.denoise_patches`:
  `test_equals_the_network` and `test_equals_the_networks_of_the_paper` in
  `tests/backends/test_compiled.py`.

`tests/flow/test_parity.py` checks the definition itself against tensors of the authors' network.
"""
