"""Do arrays of a GPU go in and come out where they are?  Through the fake driver; the bits are those of NumPy arrays."""

import ctypes
import gc

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda, dlpack as exchange
from tinyphysics.errors import InputError, PlanError


@tp.hamiltonian
def pendulum(q, p, k=1.0):
    return p * p / 2 - k * tp.cos(q)


@tp.hamiltonian
def plane(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def falls(q, p):
    return p * p / 2 - q**4


def there(a):
    buffer = cuda.upload(a)
    return exchange.DeviceArray(buffer.pointer, a.shape, a.dtype, buffer)


def start(members, shape=(), seed=1):
    rng = np.random.default_rng(seed)
    return {"q": rng.uniform(-0.4, 0.4, (members, *shape)), "p": rng.uniform(-0.3, 0.3, (members, *shape))}


@pytest.mark.parametrize("system, shape", [(pendulum, ()), (plane, (2,))])
def test_the_bits_are_those_of_a_run_here(fake_cuda, system, shape):
    state = start(37, shape)
    out = tp.compile(system, dt=0.01, backend="cuda").evolve(
        **{n: there(v) for n, v in state.items()}, steps=20
    )
    here = tp.compile(system, dt=0.01).evolve(**state, steps=20)
    assert out.hash == here.hash and np.array_equal(out.t, here.t)
    for name in state:
        assert (
            isinstance(out.final[name], exchange.DeviceArray) and out.final[name].shape == state[name].shape
        )
        assert np.array_equal(out.final[name].numpy(), here.final[name])


def test_parameters_of_each_member_and_a_run_that_goes_on(fake_cuda):
    state, k = start(20), np.linspace(1, 2, 20)
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    half = sim.evolve(**{n: there(v) for n, v in state.items()}, k=k, steps=10)
    first = tp.compile(pendulum, dt=0.01).evolve(**state, k=k, steps=10)
    whole = sim.evolve(q=half.final.q, p=half.final.p, k=k, steps=10)
    assert (
        whole.hash
        == tp.compile(pendulum, dt=0.01).evolve(q=first.final.q, p=first.final.p, k=k, steps=10).hash
    )


def test_no_state_is_copied_to_this_machine_or_from_it(fake_cuda):
    state = start(4096)
    given = {n: there(v) for n, v in state.items()}
    out = tp.compile(pendulum, dt=0.01, backend="cuda").evolve(**given, steps=5)
    assert out.metrics["bytes_moved"] < 4096 and out.metrics["launches"] > 0


def test_what_was_given_is_not_changed(fake_cuda):
    state = start(9)
    given = {n: there(v) for n, v in state.items()}
    tp.compile(pendulum, dt=0.01, backend="cuda").evolve(**given, steps=7)
    assert all(np.array_equal(given[n].numpy(), v) for n, v in state.items())


def test_one_member_has_no_axis(fake_cuda):
    q, p = np.array(0.3), np.array(-0.1)
    out = tp.compile(pendulum, dt=0.01, backend="cuda").evolve(q=there(q), p=there(p), steps=5)
    here = tp.compile(pendulum, dt=0.01).evolve(q=0.3, p=-0.1, steps=5)
    assert out.final.q.shape == () and out.hash == here.hash


def test_members_that_fail_keep_their_last_good_state(fake_cuda):
    state = {"q": np.linspace(0.1, 3, 23), "p": np.zeros(23)}
    out = tp.compile(falls, dt=0.05, backend="cuda").evolve(
        **{n: there(v) for n, v in state.items()}, steps=60
    )
    here = tp.compile(falls, dt=0.05).evolve(**state, steps=60)
    assert 0 < len(here.stops) < 23 and out.stops == here.stops and out.stopped == here.stopped
    assert all(np.array_equal(out.final[n].numpy(), here.final[n]) for n in state)


def test_who_asks_for_a_copy_gets_one_and_another_place_is_refused(fake_cuda):
    a = exchange.empty((3,), np.float64)
    a[...] = np.arange(3.0)
    lent = len(exchange._lent)
    capsule = a.__dlpack__(copy=True)
    m, _, copied = exchange._lent[next(reversed(exchange._lent))]
    assert (
        len(exchange._lent) == lent + 1
        and m.tensor.data != a.pointer
        and copied.numpy().tolist() == [0, 1, 2]
    )
    del capsule
    with pytest.raises(BufferError, match="write .numpy"):
        a.__dlpack__(dl_device=(1, 0))
    assert a.__dlpack__(dl_device=(2, 0)) is not None


def test_another_library_reads_the_memory_by_dlpack_and_gives_it_back(fake_cuda):
    """What torch does with a capsule: it takes the tensor out, renames the capsule, and calls the deleter when it is done."""
    a = there(np.arange(6.0).reshape(2, 3))
    assert a.__dlpack_device__() == (2, 0) and a.__cuda_array_interface__["data"][0] == a.pointer
    capsule = a.__dlpack__(stream=1)
    address = exchange.pointer_in(id(capsule), b"dltensor")
    managed = exchange.Managed.from_address(address)
    t = managed.tensor
    assert (t.data, t.ndim, t.shape[0], t.shape[1], t.code, t.bits) == (a.pointer, 2, 2, 3, 2, 64)
    rename = exchange.python("PyCapsule_SetName", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
    used = ctypes.create_string_buffer(b"used_dltensor")
    rename(id(capsule), used)
    del capsule
    gc.collect()
    assert address in exchange._lent  # still looked at
    managed.deleter(address)
    assert address not in exchange._lent


def test_a_capsule_that_nobody_takes_from_frees_what_it_holds(fake_cuda):
    a = there(np.zeros(4))
    capsule = a.__dlpack__()
    assert len(exchange._lent) == 1
    del capsule
    gc.collect()
    assert not exchange._lent


@pytest.mark.parametrize(
    "change, error, says",
    [
        (lambda s: {**s, "p": np.zeros(5)}, InputError, "some other states are not"),
        (lambda s: {**s, "q": there(np.zeros(5, np.float32))}, InputError, "float32"),
        (lambda s: {**s, "q": there(np.full(5, np.inf))}, InputError, "not finite"),
        (lambda s: {**s, "q": there(np.zeros(5, np.int64))}, InputError, "int64"),
        (lambda s: {**s, "q": there(np.zeros(5, np.float16))}, InputError, r"(?s)float16.*Convert it\.$"),
        (lambda s: {**s, "q": there(np.zeros(4))}, InputError, "axes have different lengths"),
        (lambda s: {**s, "resume": "run.checkpoint"}, PlanError, "Leave the states and parameters out"),
    ],
)
def test_what_does_not_go_is_said(fake_cuda, change, error, says):
    state = {n: there(v) for n, v in start(5).items()}
    with pytest.raises(error, match=says):
        tp.compile(pendulum, dt=0.01, backend="cuda").evolve(**change(state), steps=4)


REFUSED = {
    "a processor": (lambda: tp.compile(pendulum, dt=0.01, backend="llvm"),                      'backend="cuda"'),
    "fast":        (lambda: tp.compile(pendulum, dt=0.01, math="fast"),                         'backend="cuda"'),
}  # fmt: skip


@tp.hamiltonian
def spring(q, p):
    return p * p / 2 + 50 * q * q


@pytest.mark.parametrize("which", REFUSED)
def test_runs_that_are_not_done_there_say_what_to_do(fake_cuda, which):
    make, says = REFUSED[which]
    with pytest.raises(PlanError, match=says):
        make().evolve(**{n: there(v) for n, v in start(5).items()}, steps=4)


def test_a_jump_of_arrays_that_are_there_is_done_here_and_given_back_there(fake_cuda):
    sim = tp.compile(spring, dt=0.01, backend="cuda")
    plain = sim.evolve(**start(5), steps=10**6, save_every=250_000)
    out = sim.evolve(**{n: there(v) for n, v in start(5).items()}, steps=10**6, save_every=250_000)
    assert isinstance(out.final.q, exchange.DeviceArray) and isinstance(out.q, exchange.DeviceArray)
    assert np.array_equal(out.q.numpy(), plain.q) and out.hash == plain.hash
    assert np.array_equal(out.energy, plain.energy)
    again = sim.evolve(q=out.final.q, p=out.final.p, steps=0)
    assert np.array_equal(again.final.q.numpy(), plain.final.q)


def test_arrays_that_do_not_lie_in_one_piece(fake_cuda):
    class Strided(exchange.DeviceArray):
        def __dlpack__(self, **_):
            capsule = super().__dlpack__()
            managed = exchange.Managed.from_address(exchange.pointer_in(id(capsule), b"dltensor"))
            self.steps = (ctypes.c_int64 * 1)(2)
            managed.tensor.strides = ctypes.cast(self.steps, ctypes.POINTER(ctypes.c_int64))
            return capsule

    a = there(np.zeros(5))
    with pytest.raises(InputError, match="not contiguous"):
        exchange.taken("q", Strided(a.pointer, a.shape, a.dtype, a))


class Told:
    """What Numba's arrays are: an interface, and no DLPack."""

    def __init__(self, a, **other):
        self.a = a
        self.__cuda_array_interface__ = {**a.__cuda_array_interface__, **other}


def test_arrays_that_say_where_they_are(fake_cuda):
    state = start(9)
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    out = sim.evolve(**{n: Told(there(v), stream=None) for n, v in state.items()}, steps=5)
    assert isinstance(out.final.q, exchange.DeviceArray) and out.hash == sim.evolve(**state, steps=5).hash
    a = there(np.zeros((4, 2)))
    with pytest.raises(InputError, match="not contiguous"):
        exchange.taken("q", Told(a, strides=(8, 32)))
    with pytest.raises(InputError, match="mask"):
        exchange.taken("q", Told(a, mask=object()))
    assert exchange.taken("q", Told(a, strides=(16, 8))).pointer == a.pointer


def test_what_is_given_back_begins_where_others_expect_it(fake_cuda):
    """The last frame lies in the middle of all frames."""
    given = {n: there(v) for n, v in start(5).items()}
    out = tp.compile(pendulum, dt=0.01, backend="cuda").evolve(**given, steps=4, save_every=1)
    assert all(a.pointer % 256 == 0 for a in (out.q, out.p, out.final.q, out.final.p))
    assert np.array_equal(out.final.q.numpy(), out.q.numpy()[-1])


def test_what_another_library_is_given_is_done(fake_cuda):
    """Its streams need not wait for ours, and what lies in the middle of all frames was copied last."""
    a = there(np.arange(6.0).reshape(3, 2))[1].copy()
    assert fake_cuda.queue
    a.__dlpack__(stream=1)
    assert not fake_cuda.queue


def test_they_do_not_become_numpy_arrays_unasked(fake_cuda):
    a = there(np.arange(6.0).reshape(3, 2))
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        np.asarray(a)
    assert a.ndim == 2 and len(a) == 3 and (a.size, a.nbytes) == (6, 48)


def test_rows_that_are_not_there(fake_cuda):
    a = there(np.arange(6.0).reshape(3, 2))
    assert [row.numpy().tolist() for row in a] == [[0, 1], [2, 3], [4, 5]]
    for array, k in ((a, 3), (a, -4), (there(np.array(1.0)), 0)):
        with pytest.raises(IndexError, match="no row"):
            array[k]
    for key in (slice(None, None, 2), (slice(None), 1), "x", 1.0):
        with pytest.raises(TypeError, match=r"\.numpy\(\)"):
            a[key]


def test_rows_are_views_and_lists_of_them_copies(fake_cuda):
    a = there(np.arange(12.0).reshape(4, 3))
    assert a[1:3].pointer == a.pointer + 24 and np.array_equal(a[1:3].numpy(), [[3, 4, 5], [6, 7, 8]])
    assert np.array_equal(a[-1].numpy(), [9, 10, 11]) and a[None].shape == (1, 4, 3)
    some = a[[2, 0]]
    a[0] = np.full(3, 7.0)
    a[[1, 3]] = np.nan
    assert np.array_equal(some.numpy(), [[6, 7, 8], [0, 1, 2]])
    assert np.array_equal(a.numpy(), [[7, 7, 7], [np.nan] * 3, [6, 7, 8], [np.nan] * 3], equal_nan=True)
    assert a.reshape(2, -1).shape == (2, 6) and np.array_equal(
        exchange.repeated(a[:1], 5).numpy(), np.full((5, 3), 7.0)
    )
