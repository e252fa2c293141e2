"""Methods and functions of tensors by what they mean for a training step."""

from __future__ import annotations

HARMLESS = frozenset(
    """
    view size item mean sum cuda cpu to detach numpy format append join items keys values
    float long squeeze unsqueeze reshape permute transpose contiguous max min argmax eq
    add_argument parse_args write info split replace type repeat expand flatten tolist
    data_ptr parameters named_parameters state_dict load_state_dict train eval add_scalar
    extend copy get dim clone abs exp log pow sqrt t startswith endswith strip add_ mul_
    fill_ copy_ zero_
    """.split()
)
"""Methods of tensors, containers, strings and models that do no part of a training step."""
OF_MODULES = frozenset(
    """
    parameters named_parameters buffers named_buffers modules named_modules children
    named_children get_submodule state_dict load_state_dict train eval to cuda cpu
    requires_grad_ register_buffer register_parameter
    """.split()
)
"""Methods of `torch.nn.Module` that neither go backward nor step."""
GIVES_MODULE = frozenset(
    """
    to cuda cpu train eval double float half apply requires_grad_ share_memory
    """.split()
)
"""Methods of a module that give the module back."""
KEEPS_DTYPE = frozenset(
    """
    squeeze unsqueeze view reshape flatten transpose permute contiguous t mean clone chunk
    split expand repeat detach unbind to cuda abs neg clamp clamp_min clamp_max sigmoid tanh
    relu sqrt square flip roll
    """.split()
)
"""Methods that keep the dtype of a tensor; others are taken to make something new."""
NOT_ELEMENTWISE = frozenset(
    """
    exp log pow sum softmax log_softmax norm logsumexp log_prob entropy matmul mm bmm
    """.split()
)
"""Operations that autocast runs in float32, or in half: no elementwise arithmetic."""
LEAVES_RANGE = frozenset(
    "pow square exp sum log norm var std logsumexp".split()
)
"""What is soon out of float16's range, and what autocast runs in float32 for that."""
LOSS_ARITHMETIC = frozenset(
    """
    sum mean stack cat tensor item squeeze view reshape div neg abs add mul unsqueeze
    """.split()
)
"""What is done to losses that are computed already."""
ASKS = frozenset(
    """
    size shape device dtype dim ndim numel type is_cuda get_device requires_grad item tolist
    argmax argmin long int bool float double numpy eq ne gt lt ge le grad backward
    """.split()
)
"""What is asked of a tensor without using its values, and what gives a number."""
TENSOR_BACKWARD = 4
"""How many arguments `Tensor.backward` takes: gradient, retain_graph, create_graph, inputs."""
VIEWS = frozenset(
    """
    data detach clone view reshape squeeze unsqueeze flatten contiguous cuda cpu permute
    expand transpose repeat expand_as view_as
    """.split()
)
"""Views and copies that a cast may follow."""
FRESH = frozenset(
    """
    FloatTensor Tensor LongTensor from_numpy rand randn zeros ones randint arange tensor
    full
    """.split()
)
"""Functions of torch that make a tensor of its own dtype."""
HALF_ANYWAY = frozenset(
    """
    einsum matmul bmm mm linear conv1d conv2d conv3d addmm baddbmm
    """.split()
)
"""What autocast runs in half anyway, so that registering it with apex says nothing new."""
AS_THEY_ARE = frozenset(
    """
    view reshape view_as reshape_as expand expand_as __getitem__ __get__ __set__ transpose
    permute squeeze unsqueeze narrow select t flatten unflatten chunk split tensor_split
    unbind detach contiguous as_strided diagonal movedim swapaxes swapdims unfold moveaxis
    to type float half bfloat16 double int long cpu cuda numpy item tolist size stride dim
    numel __len__ __iter__ __deepcopy__ __reduce_ex__ __repr__ __format__ __bool__ __float__
    __int__ __index__ __array__ __hash__ backward register_hook retain_grad requires_grad_
    share_memory_ is_floating_point is_complex data_ptr storage untyped_storage element_size
    is_contiguous storage_offset get_device clone set_ new_zeros new_ones new_full new_empty
    new_tensor zeros_like ones_like full_like empty_like randint_like as_tensor tensor
    from_numpy result_type can_cast is_same_size typename is_tensor
    register_post_accumulate_grad_hook
    """.split()
)
"""What a float64 reference run leaves as it is: views, conversions, questions."""
FOLLOWED = VIEWS | frozenset(
    "mean sigmoid tanh relu softmax clamp abs sqrt numpy mul div add sub t".split()
)
"""Those, and arithmetic whose result is half where the tensor is."""
PICKS = frozenset("topk sort argsort multinomial isnan nonzero".split())
"""Functions that pick elements, or tell where they are."""
PICKS_OF_ARRAYS = frozenset(
    """
    argmax argmin argsort nanargmax nanargmin argpartition shape ndim size dtype
    """.split()
)
"""What is asked of an array, by method or function, whose answer half precision leaves as it is."""
VIEWS_OF_ARRAYS = frozenset(
    "T copy flatten ravel reshape squeeze swapaxes transpose".split()
)
"""Methods and attributes of an array that give the same numbers in another shape."""
TAKES_NUMBERS = ("isin",)
"""Comparisons and tests whose first argument may be a number; the others raise for one."""
TESTS_OF_ARRAYS = ("isnan", "isinf", "isfinite")
"""Functions of NumPy that tell nothing of an array but whether it overflowed."""
KEEPS_SHAPE = frozenset(
    """
    cpu cuda detach clone contiguous requires_grad_ pin_memory data Variable transpose t T permute
    flip roll softmax log_softmax cumsum cumprod logcumsumexp nn.functional.normalize
    nn.functional.batch_norm nn.functional.layer_norm nn.functional.group_norm
    nn.functional.instance_norm masked_fill
    """.split()
)
"""Operators, by their rows, that give as many dimensions as their tensor has."""
MAKES_DIMENSIONS = frozenset(
    """
    cat stack hstack vstack dstack column_stack unsqueeze flatten ravel atleast_1d atleast_2d
    atleast_3d mm bmm addmm baddbmm outer arange linspace logspace eye nn.functional.one_hot
    nn.functional.embedding nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
    nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d
    """.split()
)
"""Operators, by their rows, whose result has a dimension whatever they are given."""
TAKES_SIZES = frozenset("zeros ones empty rand randn FloatTensor".split())
"""Functions that take nothing but sizes."""
SIZED = frozenset("view reshape expand repeat tile broadcast_to".split())
"""Methods that take the sizes of what they give."""
REDUCTIONS = frozenset(
    "sum nansum prod mean nanmean logsumexp amax amin".split()
)
"""Operators that take the dimensions, over which they reduce, second."""
PRODUCTS = frozenset(
    """
    mm bmm addmm addmv addr baddbmm addbmm mv dot vdot convolution convolution_backward
    _addmm_activation linalg_vecdot _trilinear
    """.split()
)
"""Matrix products and convolutions, by the names of their kernels."""
NUMPY = "numpy."
"""Its functions have the names of torch's, where both have one."""
ARRAY_LIBRARIES = (
    NUMPY,
    "scipy.",
    "sklearn.",
    "skimage.",
    "cv2.",
    "pandas.",
    "librosa.",
    "math.",
    "cmath.",
    "statistics.",
    "random.",
    "time.",
)
"""Libraries that compute numbers and arrays: nothing that they give is a tensor."""
ARRAYS_BY_INDEX = frozenset(
    ("numpy.c_", "numpy.mgrid", "numpy.ogrid", "numpy.r_")
)
"""What makes an array of what stands in its brackets: `numpy.r_[:2, 4:6]`."""
ONLY_OF_TENSORS = frozenset(
    """
    detach detach_ unsqueeze unsqueeze_ squeeze_ permute contiguous expand_as view_as reshape_as
    type_as size dim numel numpy data_ptr is_contiguous new_zeros new_ones new_full new_empty
    new_tensor requires_grad_ retain_grad backward register_hook grad_fn is_cuda requires_grad
    sigmoid sigmoid_ softmax log_softmax tanh_ relu relu_ clamp clamp_ clamp_min clamp_min_
    clamp_max clamp_max_ masked_fill masked_fill_ masked_select gather scatter scatter_
    scatter_add scatter_add_ index_select index_add_ index_copy_ index_fill_ bmm mm baddbmm addmm
    norm topk logsumexp narrow unbind chunk triu tril erf rsqrt exp_ log_ sqrt_ add_ sub_ mul_ div_
    neg_ zero_ fill_ copy_ movedim triu_ tril_ masked_scatter masked_scatter_ t lerp
    addcmul addcmul_ addcdiv addcdiv_ bernoulli multinomial normal_ uniform_ renorm kthvalue
    """.split()
)
"""Methods and attributes that tensors have, and neither arrays nor lists, modules, packed sequences
and frames of data: what is asked for one is a tensor. (The `size` of an array is no method.)
"""
_FLAGS = (
    "grad_fn",
    "is_cuda",
    "is_leaf",
    "is_sparse",
    "requires_grad",
    "retains_grad",
)
ATTRIBUTES_OF_TENSORS = frozenset(_FLAGS)
"""Those among them that are not called."""
FORWARD_HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
)
"""What is registered by them runs with every forward."""
LEAVES_MODULE = frozenset(
    """
    parameters named_parameters train eval state_dict load_state_dict zero_grad requires_grad_
    modules children named_modules training cpu to float
    """.split()
)
"""What may be asked of a module that stays where it is; where `to` moves it is asked apart."""

RUN_ON_PARTS = ("apply", "_apply")
"""Methods of a module that run what they are given on each of its modules, or tensors."""
MOVES = ("to", "cuda")
"""Methods of tensors and modules that take them to a device."""
WIDENS = ("float", "double")
"""Methods that give a tensor in float32, or wider."""
TYPES = ("type", "type_as")
"""Methods that give a tensor in the dtype that they are told."""
PYTHON_NUMBERS = ("item", "tolist")
"""Methods that make numbers of Python of a tensor."""

TENSOR_ATTRIBUTES = ("data", "grad", "real", "imag", "T", "H", "mT", "mH")
"""Attributes of a tensor that are tensors."""

KEEP_MAGNITUDE = frozenset("sum mean clamp clamp_min maximum add sqrt".split())
"""Operators of squares behind which a square that is too large, or too small, still shows."""
OF_CONTEXTS = frozenset(
    """
    mark_dirty mark_non_differentiable mark_shared_storage save_for_backward
    save_for_forward set_materialize_grads maybe_clear_saved_tensors register_hook
    register_prehook name
    """.split()
)
"""Methods of the `ctx` of an `autograd.Function`; what else is called on one was kept there."""
