"""What a run returns: frames, observables, hashes, and why it stopped."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import FROM_FRAME, shown
from tinyphysics.util import did_you_mean

if TYPE_CHECKING:
    from tinyphysics.loss import Loss  # what most runs have none of


@dataclass(frozen=True)
class Stop:
    """Why and where a run, or one member of an ensemble, ended early: `out.stopped`.

    `cause` is a word or two, `step` the first bad step and `t` its time, `member` which one of an ensemble, `where` the
    place in the state, and `error` what was raised, where something was.
    """

    # "not finite", "not solved": the equations of a step, "overflow": a number left its lattice, "interrupted", "store": a
    # file could not be written, "device": a GPU failed (see `error`), "integrity": a step broke what the run conserves,
    # "singularity": a step passed a pole of the energy (both: see `error`, and the table of docs/checks.md), "event": an
    # event with then="stop", whose name is `where`; the final state is the one at its time
    cause: str
    step: int  # the first bad step; the state before it is kept
    t: float
    member: int | None = None
    where: Any = None  # (i, j) of two particles that met, else (state, index) of the first bad number
    error: BaseException | None = None
    of: Any = field(default=None, repr=False, compare=False)  # the run, where it is known

    def report(self, out: Trajectory | None = None) -> Any:
        """Says why: the last steps are done again, and the cause, the term with its line, a table and the fix are shown.

        `print(out.stopped.report())`; of another member of an ensemble, `print(out.stops[3].report(out))`.
        """
        from tinyphysics import up

        return up.autopsy(self if out is None else replace(self, of=out))


OF_OTHER_RUNS = {  # what only some runs have, and what makes a run of that kind
    "exchange": "evolve(..., exchange=100)",
    "at": "evolve(..., exchange=100)",
    "free_energy": "compile(..., bias=tp.metadynamics(...)); of umbrella windows write tp.mbar(out).free_energy()",
    "weights": "compile(..., bias=tp.metadynamics(...)); of umbrella windows write tp.mbar(out).weights",
    "bias": "compile(..., bias=tp.metadynamics(...))",
    "bias_work": "compile(..., bias=...)",
    "cv": "compile(..., bias=...)",
    "cell_work": "compile(..., pressure=1.0)",
}
WRONG = ("integrity", "singularity")  # causes of stops of a run whose numbers are finite


@dataclass(frozen=True)
class Drift:
    """The slope of a quantity over time, and its standard error."""

    slope: float
    error: float


@dataclass(frozen=True, eq=False)
class Touched:
    """A contact at the frames of a run: `gap`, negative where bodies overlap, `force` and `rub`, each (frames, ...)."""

    gap: Any
    force: Any
    rub: Any = None  # None where nothing rubs


@dataclass(frozen=True, eq=False)
class Words:
    """A state as a run keeps it, the error word after its array: `high, low = out.words("q")`.

    `sim.evolve(q=out.final.words("q"), ...)` begins with these very words.
    """

    arrays: Mapping[str, Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.arrays.values())

    def __getitem__(self, key: Any) -> Words:
        """The words of some frames or members."""
        return Words({name: v[key] for name, v in self.arrays.items()})


def words_of(kept: Mapping[str, Any], name: str, states: Mapping[str, Any]) -> Words:
    if name not in states and name not in kept:  # time may be one that is not shown
        raise InputError(
            f"there is no state `{name}`", fix=f"{did_you_mean(name, states)}It has {', '.join(states)}."
        )
    return Words({n: v for n, v in kept.items() if n == name or n.startswith(f"{name}.")})


class StatesByName:
    """Has its states as attributes, too."""

    states: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        states = self.__dict__.get("states", {})
        if name in states:
            return states[name]
        raise AttributeError(f"no state `{name}`; this system has {', '.join(states)}")


@dataclass(eq=False)
class Frame(StatesByName):
    """One synchronised state at its time: `frame.q`, `frame.p`, `frame.t`.

    `sim.evolve(**frame, steps=100)` begins there: with its states, its time as t0, and the parameters of its run. What is
    given beside it goes before: `sim.evolve(**frame, mu=2.0, steps=100)`.
    """

    states: Mapping[str, Any]
    step: int  # the last whole one, where it is between two
    t: Any  # a number; of an ensemble whose members have times of their own, one for each
    kept: Mapping[str, Any] = field(default_factory=dict)  # as the run has it, word by word
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)  # parameters that are not the defaults
    # what its first state has decided about the steps of its run
    decided: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def words(self, name: str) -> Words:
        """Returns a state by its name, in the numbers that the run computes with."""
        return words_of(self.kept, name, self.states)

    def __getitem__(self, name: str) -> Any:
        if name == FROM_FRAME:
            return self
        if name not in self.states:
            raise InputError(
                f"there is no state `{name}`",
                fix=f"{did_you_mean(str(name), self.states)}It has {', '.join(self.states)}.",
            )
        return self.states[name]

    def _names(self) -> list[str]:
        """What `**frame` passes on: the states, and this frame for its time and parameters."""
        return [*self.states, FROM_FRAME]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<Frame at step {self.step}, t = {self.t}: {', '.join(self.states)}>"

    keys = _names

    def __dir__(self) -> list[str]:
        """For `frame.<TAB>`: the states too."""
        return sorted({*super().__dir__(), *self.states})

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.states)


class Metrics(dict[str, Any]):
    """What is known of a run, by name; what costs time to know is found when it is first read."""

    def __init__(self, *given: Any, later: Mapping[str, Callable[[], Any]] | None = None) -> None:
        super().__init__(*given)
        self.later = {} if later is None else dict(later)

    def __missing__(self, name: str) -> Any:
        if name not in self.later:
            raise KeyError(name)
        self[name] = value = self.later[name]()
        return value

    # A dict answers these from what it holds; here what is still to be found belongs to it, too.
    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or name in self.later

    def __iter__(self) -> Iterator[str]:
        yield from dict.__iter__(self)
        yield from (name for name in self.later if not dict.__contains__(self, name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def keys(self) -> Any:
        return KeysView(self)

    def items(self) -> Any:
        return ItemsView(self)

    def values(self) -> Any:
        return ValuesView(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _metrics, (dict(dict.items(self)), self.later)

    def all(self) -> dict[str, Any]:
        """A plain dict of all of it."""
        return {name: self[name] for name in [*self]}

    def copy(self) -> dict[str, Any]:
        return self.all()

    def __eq__(self, other: object) -> bool:
        return self.all() == (other.all() if isinstance(other, Metrics) else other)

    def __repr__(self) -> str:
        return repr(self.all())

    def __or__(self, other: Any) -> Any:
        return self.all() | other

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self.all()


def _metrics(known: dict[str, Any], later: Mapping[str, Callable[[], Any]]) -> Metrics:
    return Metrics(known, later=later)


class _Named:
    """A method of one object that takes a name, in parentheses or in brackets."""

    def __init__(self, function: Callable[[Any, str], Any], owner: Any) -> None:
        self._function, self._owner = function, owner
        self.__doc__ = function.__doc__

    def __call__(self, name: str) -> Any:
        return self._function(self._owner, name)

    __getitem__ = __call__


class _ByName:
    """Makes a method that takes a name answer `out.method["name"]` as well as `out.method("name")`."""

    def __init__(self, function: Callable[[Any, str], Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self.function if owner is None else _Named(self.function, owner)


@dataclass(eq=False)
class Trajectory:
    """What a run returns: arrays over its frames by name, `out.q`, `out.p`, `out.t`, `out.energy`, `out["observable"]`.

    `final` is the last state and `t` the times of frames, which are at `steps`; `frames` has every state by name, and
    `observed` every observable with its times. `stops` says why members ended early, `metrics` has measurements of the
    run, `losses` what it threw away or approximated, `found` the events. `hash_of` and `hashes` are digests of states;
    `kept` and `origin` serve exact restarts and replays.
    `print(out.checks)` says whether what the method keeps to rounding was kept.
    `for frame in out` goes through the frames, `out[-1]` is the last of them: `frame.q`, `frame.t`.
    """

    t: Any
    steps: Any
    frames: Mapping[str, Any]
    final: Frame
    hash_of: Callable[[], str]  # of the last state
    hashes: list[tuple[int, str]] = field(default_factory=list)
    stops: tuple[Stop, ...] = ()
    metrics: dict[str, Any] = field(default_factory=Metrics)
    observed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # name -> (times, values)
    origin: Any = None  # what the energies and a replay are computed from
    kept: Mapping[str, Any] = field(default_factory=dict)  # the frames as the run has them, word by word
    found: Mapping[str, Any] = field(default_factory=dict)  # events, by name
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)
    _warned: tuple[str, ...] = ()  # why the run looks wrong
    _acts: Mapping[str, Any] = field(default_factory=dict)  # what changed the state between steps, by name
    _losses: Callable[[], tuple[Loss, ...]] = tuple  # looked for when they are first read
    # what else can be asked of a run, by name, each found when it is first read; a state of that name goes before
    _later: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        frames = self.__dict__.get("frames", {})
        if name in frames:
            return frames[name]
        if name in getattr(self.__dict__.get("origin"), "velocities", ()):
            return self._ask("velocity", name)
        if name == "acts":  # unless a state has that name
            return self.__dict__.get("_acts", {})
        if name in self.__dict__.get("_later", {}):
            if name not in self._cache:
                self._cache[name] = self._later[name]()
            return self._cache[name]
        if name in OF_OTHER_RUNS:
            raise AttributeError(f"this run has no out.{name}: that comes with {OF_OTHER_RUNS[name]}")
        raise AttributeError(
            f"a trajectory has no `{name}`; {did_you_mean(name, [*frames, 'energy', 'final', 'drift'])}"
            f"states: {', '.join(frames)}; observables: {', '.join(self.__dict__.get('observed', {})) or 'none'}"
        )

    def __dir__(self) -> list[str]:
        """For `out.<TAB>`: the states too, and velocities where the system has them."""
        return sorted(
            {
                *super().__dir__(),
                "acts",
                *self.__dict__.get("_later", ()),
                *self.frames,
                *getattr(self.origin, "velocities", ()),
            }
        )

    def _ipython_key_completions_(self) -> list[str]:
        """For `out["<TAB>`."""
        return [*self.frames, *self.observed]

    def __setattr__(self, name: str, value: Any) -> None:
        """Only what a trajectory has: another name would hide a state, or be lost when it is saved."""
        if name not in self.__dataclass_fields__:
            raise InputError(
                f"`out.{name} = {shown(value)}`: a trajectory is the result of a run and cannot be changed",
                fix=f"Use a variable of your own: {name} = {shown(value)}.",
            )
        object.__setattr__(self, name, value)

    def __getitem__(self, name: Any) -> Any:
        """A state or the energy over frames, or an observable over its times; by a number, one frame."""
        if not isinstance(name, str):
            return self._frame(name)
        if name in self.observed:
            return self.observed[name][1]
        if name in self.frames:
            return self.frames[name]
        if name in ("t", "energy") or name in getattr(self.origin, "velocities", ()):
            return getattr(self, name)
        return self._observed(name)[1]

    def __len__(self) -> int:
        """How many frames there are."""
        return len(self.t)

    def __iter__(self) -> Iterator[Frame]:
        return map(self._frame, range(len(self)))

    def _frame(self, number: Any) -> Frame:
        if isinstance(number, slice):
            raise InputError(
                "a trajectory is indexed by one frame number, not by a slice",
                fix=f"For several frames, slice the arrays: out.t[2:9], out.{next(iter(self.frames), 'q')}[2:9].",
            )
        try:
            k = range(len(self))[number]
        except (TypeError, IndexError):
            raise InputError(
                f"out[{shown(number)}]: there is no such frame",
                fix=f"There are {len(self)} frames: out[0] to out[{len(self) - 1}], or out[-1] for the last.",
            ) from None
        t = self.t[k]
        states, kept = ({n: v[k] for n, v in arrays.items()} for arrays in (self.frames, self.kept))
        t = t if getattr(t, "ndim", 0) else float(t)
        changed = getattr(self.origin, "changed", {})
        given = {**self.final.given, **{name: h.at([self.steps[k]])[0] for name, h in changed.items()}}
        return Frame(states, int(self.steps[k]), t, kept, given, self.final.decided)

    def words(self, name: str) -> Words:
        """Returns a state by its name, in the numbers that the run computes with: `high, low = out.words("q")`."""
        return words_of(self.kept, name, self.frames)

    @_ByName
    def events(self, name: str) -> Any:
        """The times at which an event function changed sign, and the states there: `out.events("apsis")`.

        They are `.t`, `.rising`, `.member`, `.q` and so on. `out.events["apsis"]` is the same. Choose some of them as
        from an array: `found[found.rising]`, `found[found.member == 3]`.
        """
        if name not in self.found:
            known = ", ".join(self.found) or "none"
            raise InputError(
                f"this run recorded no events named `{name}`",
                fix=f"Recorded: {known}. To record it, pass events={{{name!r}: lambda q, p: ...}} to evolve.",
            )
        if isinstance(self.found[name], InputError):
            raise self.found[name]
        return self.found[name]

    def times(self, name: str) -> Any:
        """Returns the times at which an observable was taken, by its name; of a state, the times of the frames."""
        if name not in self.observed and (name in self.frames or name == "energy"):
            return self.t
        return self._observed(name)[0]

    def _observed(self, name: str) -> tuple[Any, Any]:
        if name not in self.observed:
            known = ", ".join(self.observed) or "none"
            raise InputError(
                f"`{name}` was not observed in this run",
                fix=f"Observed: {known}. To record it, pass observe={{{name!r}: lambda q, p: ...}} to evolve.",
            )
        return self.observed[name]

    @property
    def hash(self) -> str:
        """A hash of the last state; computed when it is first read."""
        if "hash" not in self._cache:
            self._cache["hash"] = self.hash_of()
        return str(self._cache["hash"])

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the run threw away or approximated, how much of it, and what would bring it back; empty: nothing.

        It is looked for when it is first read. `for loss in out.losses: print(loss)`.
        """
        if "losses" not in self._cache:
            self._cache["losses"] = self._losses()
        found: tuple[Loss, ...] = self._cache["losses"]
        return found

    @property
    def stopped(self) -> Stop | None:
        """The first reason why the run, or a member of it, ended early; None if it went to its end."""
        return replace(min(self.stops, key=lambda s: s.step), of=self) if self.stops else None

    def _ask(self, question: str, *args: str) -> Any:
        """Asked once, remembered."""
        for name in args:
            if not isinstance(name, str):
                raise InputError(
                    f"{shown(name)} is not the name of a quantity", fix='Write out.drift("energy").'
                )
        key = " ".join((question, *args))
        if key not in self._cache:
            if self.origin is None:
                raise PlanError(
                    f"`{key}` needs the program of this run, and the run was loaded without it",
                    fix="Run it again, and read it before the trajectory is saved.",
                )
            self._cache[key] = getattr(self.origin, question)(*args)
        return self._cache[key]

    @property
    def energy(self) -> Any:
        """The energy of every frame."""
        return self._ask("energies")

    @property
    def ledger(self) -> dict[str, Any]:
        """What is booked beside the energy, up to each frame: what "friction" took, what a "drive" and "heat" gave.

        Energy + friction - drive - heat is conserved, and out.drift("energy") is that of their sum. Empty where nothing is
        booked.
        """
        found: dict[str, Any] = self._ask("ledger")
        return found

    @property
    def heat(self) -> Any:
        """The heat that a bath has given up to each frame: the kinetic energy that its part of a step has added."""
        booked = self.ledger
        if "heat" not in booked:
            raise PlanError(
                "a run without a bath has no heat and no shadow work",
                fix="Compile it with one: tp.compile(system, dt, temperature=1.0).",
            )
        moves = self.__dict__.get("_later", {})
        return booked["heat"] - self.cell_work if "cell_work" in moves else booked["heat"]

    @property
    def shadow_work(self) -> Any:
        """What is left of the change of the energy without the heat: the work that the length of the step does.

        H - H₀ = heat + shadow work. It is 0 for dt to 0, and small beside k_B T where dt is short enough.
        """
        changed = self.extended_energy
        return changed - changed[0]

    @property
    def extended_energy(self) -> Any:
        """What is conserved in a bath up to the error of the step, at each frame: H less the heat that came in.

        With a bias or a box that changes, less the work that these have done, too.
        """
        out = self.energy - self.heat
        for name in ("bias_work", "cell_work"):
            if name in self.__dict__.get("_later", {}):
                out = out - getattr(self, name)
        return out

    def multipliers(self, name: str) -> Any:
        """The multipliers λ of a constraint at every frame, by its name: p' = -dV/dq - Gᵀλ with G = dg/dq.

        Of g = q @ q - l**2 the tension of the rod is 2 l λ. At a frame it is the mean of the values of the half steps before
        and after it, each of which alone is wrong by a multiple of dt.
        """
        return self._ask("multipliers", name)

    def contacts(self, name: str) -> Touched:
        """What a contact does at every frame, by its name: its gaps, the forces that push, and those that rub.

        Forces are the impulses of the step that ended at a frame, over dt; those of the first frame are zero.
        """
        found: Touched = self._ask("contacts", name)
        return found

    def every_step(self, name: str = "energy") -> tuple[Any, Any, Any]:
        """Returns (times, values, scale) of a quantity, by its name, at every step; the run is replayed, bit for bit.

        The scale of an energy is the run's largest sum of |terms of H|. Where the loop was deleted there are no steps
        between frames: then it is of every frame. "extended energy" is H + p_t, which is conserved where H depends on t;
        with friction it is H and what friction took, in a bath H less its heat; "friction", "heat" and "drive" are these
        books alone.
        """
        t, values, scale = self._ask("series", name)
        return t, values, scale

    def drift(self, name: str = "energy") -> Any:
        """Largest |E - E0| / S over every step, S the run's largest sum of |terms of H|; one per member.

        The same of any observable: `out.drift("L3")`, S its own largest sum of |terms|, of an array over all its numbers.
        NaN if an energy was not finite: such a run has failed. Where the terms of H cancel, as those of two vortices at
        distance 1 do, S is the largest sum of |z dH/dz| over the states z. out.metrics["drift"] says which S was used.
        Where H depends on t, E is H + p_t: the work that the drive does on the system is subtracted. With friction, E is H
        and what friction took, and in a bath H less the heat that came in; out.metrics["drift"]["energy"] says so.
        Where the loop was deleted (propagator="exact", "method") it is over the frames. `name` is "energy" or that of an
        observable.
        """
        found = self._ask("drift", name)
        self.metrics["drift"] = {"scale": found.largest, "of": found.of}
        if name == "energy" and self.origin is not None and (booked := self.origin.booked()):
            gone = ", which is what is gone: the loop was deleted" if "propagator" in self.metrics else ""
            self.metrics["drift"]["energy"] = f"H, and what is booked as {' and '.join(booked)}{gone}"
        notes = tuple(self.metrics.get("notes", ()))
        if found.note and found.note not in notes:
            self.metrics["notes"] = (*notes, found.note)
        return found.value

    def drift_rate(self, name: str = "energy") -> Any:
        """Returns the slope of a quantity, by its name, per unit time, with its standard error, fitted over every step."""
        t, values = self._ask("changes", name)
        t = t - t.mean()
        n = len(t)
        if n < 3:
            raise InputError("a drift rate needs a run of at least two steps", fix="Run longer.")
        square = (t * t).sum()
        t = t.reshape((n,) + (1,) * (values.ndim - 1))
        slope = (t * (values - values.mean(axis=0))).sum(axis=0) / square
        rest = values - values.mean(axis=0) - t * slope
        error = ((rest * rest).sum(axis=0) / ((n - 2) * square)) ** 0.5
        if values.ndim == 1:
            return Drift(float(slope), float(error))
        return [Drift(float(s), float(e)) for s, e in zip(slope.ravel(), error.ravel())]

    def plot(
        self, figure: Any = None, *, kind: str | None = None, x: Any = None, y: Any = None, z: Any = None
    ) -> Any:
        """Draws a picture that suits the system, and its energy error: `out.plot().savefig("run.png")`, a matplotlib Figure.

        `kind` is "orbit", "3d", "phase", "chain", "field", "map", "time", "energy", "spectrum", "section" or "cloud".
        `x`, `y` and `z` name the axes: "t", "energy", a state with or without an index ("q[0]", "p[:, 1]"), an observable, or
        an array with a row for each frame; three of them are drawn in space, and `y` alone is drawn over time. The
        picture goes into a figure of your own, if one is given. A notebook shows the figure; no window is opened.
        """
        from tinyphysics import up

        return up.plot(self, "figure", figure, kind=kind, x=x, y=y, z=z)

    def animate(
        self,
        path: Any = None,
        *,
        kind: str | None = None,
        x: Any = None,
        y: Any = None,
        z: Any = None,
        seconds: float | None = None,
        speed: float | None = None,
        trail: float | bool = 0.2,
        fps: float = 25.0,
        dpi: float = 100.0,
        size: tuple[float, float] = (5.4, 4.4),
    ) -> Any:
        """A film of the run, which notebooks play; written to `path` if one is given: "run.html", "run.gif", "run.mp4".

        The film takes `seconds` (8 by default), or shows so much of t in a second as `speed` says: speed=1 is real
        time. `trail` is the share of the run that a point leaves behind as a line; True is all of it, False none.
        `kind`, `x`, `y` and `z` say what is drawn, as in plot(). Every picture is a frame of the run, and nothing is
        interpolated; `fps` is how many are shown in a second, `size` (inches) and `dpi` how large they are.
        `out.animate().save("run.gif")` writes the film later.
        """
        options = {"seconds": seconds, "speed": speed, "trail": trail, "fps": fps, "dpi": dpi, "size": size}
        from tinyphysics import up

        return up.plot(self, "film", path, kind=kind, x=x, y=y, z=z, **options)

    def report(self, path: Any) -> Any:
        """Writes a page about the run to `path`, one HTML file that loads nothing, and returns the path.

        `out.report("run.html")` has its charges against the bands of rounding, the energy and the shadow energy, the plan
        with its certificate, what was thrown away, a portrait, and why it stopped, if it did.
        """
        from tinyphysics import up

        return up.report(self, path)

    def mean(self, name: str) -> Any:
        """Returns the mean of an observable, a state or "energy" over the run, by its `name`, with its error: tp.statistics.

        Members of an ensemble are copies: they are one average. Of an array there is one for each of its numbers.
        """
        from tinyphysics import up

        series = self[name]
        many = self.origin is not None and self.origin.is_ensemble
        return up.statistics(series, many)

    def quantity(self, name: str) -> Any:
        """Returns a state, "t", "energy" or an observable, by its `name`, over the frames, as a quantity of pint's.

        Its unit is the annotated one, or follows from those that are.
        """
        from tinyphysics import up

        return up.quantity(self, name)

    def to_xarray(self) -> Any:
        """Returns an xarray.Dataset with named axes, units, and attributes that reproduce the run."""
        from tinyphysics import up

        return up.to_xarray(self)

    def _repr_html_(self) -> str:
        """A small picture of the run and what is in it, for notebooks."""
        from tinyphysics import up

        return str(up.plot(self, "page"))

    def __repr__(self) -> str:
        end = f", stopped: {self.stopped.cause} at step {self.stopped.step}" if self.stopped else ""
        if not len(self.t):
            return f"<Trajectory without frames, which ends at t = {self.final.t:g}{end}>"
        first, last = self.t[0], self.t[-1]
        if getattr(first, "ndim", 0):  # members have times of their own
            first, last = first.min(initial=float("inf")), last.max(initial=-float("inf"))
        part = self.metrics["end"]["fraction"] if "end" in self.metrics else 0.0
        if part and last == self.final.t:
            end = f", the last by {part:.3g} of a step{end}"
        told = "".join(f", looks wrong: {what}" for what in self._warned)
        notes = "".join(f", {what}" for what in self.metrics.get("notes", ()) if what not in self._warned)
        return f"<Trajectory of {len(self.t)} frames, t = {first:g} .. {last:g}{end}{self._told_drift()}{told}{notes}>"

    def _told_drift(self) -> str:
        """The drift of the energy if it is known, or at once for the frames alone; nothing is run for it."""
        if "drift energy" in self._cache:
            known = self._cache["drift energy"]
            found = known.value if isinstance(known.value, float) else known.value.max(initial=0.0)
            return f", energy drift {found:.1e}{'' if known.note else ' of its terms'}"
        seen = self.origin.glance() if hasattr(self.origin, "glance") else None
        return "" if seen is None else f", energy drift {seen:.1e} of its terms over its frames"
