"""Where is a method written down?  Every source by its key; explain(), the docs and sim.cite() read this table."""

from __future__ import annotations

from dataclasses import dataclass

# as every BibTeX reads them
ACCENTS = str.maketrans(
    {"À": "{\\`A}", "í": "{\\'\\i}", "ú": "{\\'u}", "é": "{\\'e}", "ä": '{\\"a}', "ö": '{\\"o}'}
)


@dataclass(frozen=True)
class Work:
    key: str
    authors: tuple[str, ...]  # "Verlet, Loup": as BibTeX wants them
    year: int
    title: str
    journal: str = ""  # an article has a journal, a volume and pages; a report an institution and a number
    volume: str = ""
    pages: str = ""
    doi: str = ""
    institution: str = ""
    number: str = ""

    @property
    def short(self) -> str:
        """One line: who, when, where."""
        *others, last = [a.partition(",")[0] for a in self.authors]
        who = f"{', '.join(others)} and {last}" if others else last
        if self.institution:
            return f"{who} {self.year}, report {self.number}, {self.institution}"
        return f"{who} {self.year}, {self.journal} {self.volume}, {self.pages.partition('-')[0]}"

    @property
    def bibtex(self) -> str:
        """The entry; the line above it is outside of every entry, where BibTeX reads nothing."""
        kind = "techreport" if self.institution else "article"
        fields = {
            "author": " and ".join(self.authors),
            "title": f"{{{self.title}}}",
            "journal": self.journal,
            "volume": self.volume,
            "pages": self.pages.replace("-", "--"),
            "institution": self.institution,
            "number": self.number,
            "year": str(self.year),
            "doi": self.doi,
        }
        lines = ",\n".join(
            f"  {name} = {{{value.translate(ACCENTS)}}}" for name, value in fields.items() if value
        )
        return f"% {self.short}\n@{kind}{{{self.key},\n{lines}\n}}"


# fmt: off
WORKS: tuple[Work, ...] = (
    Work("leimkuhler2013", ("Leimkuhler, Benedict", "Matthews, Charles"), 2013,
         "Robust and efficient configurational molecular sampling via Langevin dynamics",
         "J. Chem. Phys.", "138", "174102", "10.1063/1.4802990"),
    Work("leimkuhler2016", ("Leimkuhler, Benedict", "Matthews, Charles"), 2016,
         "Efficient molecular dynamics using geodesic integration and solvent-solute splitting",
         "Proc. R. Soc. A", "472", "20160138", "10.1098/rspa.2016.0138"),
    Work("davidchack2015", ("Davidchack, Ruslan L.", "Ouldridge, T. E.", "Tretyakov, M. V."), 2015,
         "New Langevin and gradient thermostats for rigid body dynamics",
         "J. Chem. Phys.", "142", "144114", "10.1063/1.4916312"),
    Work("bussi2007", ("Bussi, Giovanni", "Parrinello, Michele"), 2007, "Accurate sampling using Langevin dynamics",
         "Phys. Rev. E", "75", "056707", "10.1103/PhysRevE.75.056707"),
    Work("nose2001", ("Nosé, Shuichi",), 2001, "An improved symplectic integrator for Nosé-Poincaré thermostat",
         "J. Phys. Soc. Jpn.", "70", "75-77", "10.1143/JPSJ.70.75"),
    Work("jayawardana2023", ("Jayawardana, Buddhika", "Ohsawa, Tomoki"), 2023,
         "Semiexplicit symplectic integrators for non-separable Hamiltonian systems",
         "Math. Comp.", "92", "251-281", "10.1090/mcom/3778"),
    Work("kutta1901", ("Kutta, Wilhelm",), 1901,
         "Beitrag zur näherungsweisen Integration totaler Differentialgleichungen",
         "Z. Math. Phys.", "46", "435-453"),
    Work("lawson1967", ("Lawson, J. Douglas",), 1967,
         "Generalized Runge-Kutta processes for stable systems with large Lipschitz constants",
         "SIAM J. Numer. Anal.", "4", "372-380", "10.1137/0704033"),
    Work("berenger1994", ("Berenger, Jean-Pierre",), 1994,
         "A perfectly matched layer for the absorption of electromagnetic waves",
         "J. Comput. Phys.", "114", "185-200", "10.1006/jcph.1994.1159"),
    Work("cox2002", ("Cox, Stephen M.", "Matthews, Paul C."), 2002, "Exponential time differencing for stiff systems",
         "J. Comput. Phys.", "176", "430-455", "10.1006/jcph.2002.6995"),
    Work("devogelaere1956", ("de Vogelaere, René",), 1956,
         "Methods of integration which preserve the contact transformation property of the Hamiltonian equations",
         institution="University of Notre Dame", number="4"),
    Work("butcher1964", ("Butcher, John C.",), 1964, "Implicit Runge-Kutta processes",
         "Math. Comp.", "18", "50-64", "10.1090/S0025-5718-1964-0159424-9"),
    Work("verlet1967", ("Verlet, Loup",), 1967,
         "Computer ``experiments'' on classical fluids. I. Thermodynamical properties of Lennard-Jones molecules",
         "Phys. Rev.", "159", "98-103", "10.1103/PhysRev.159.98"),
    Work("moreau1999", ("Moreau, Jean Jacques",), 1999, "Numerical aspects of the sweeping process",
         "Comput. Methods Appl. Mech. Eng.", "177", "329-349", "10.1016/S0045-7825(98)00387-9"),
    Work("andersen1983", ("Andersen, Hans C.",), 1983,
         "Rattle: A ``velocity'' version of the Shake algorithm for molecular dynamics calculations",
         "J. Comput. Phys.", "52", "24-34", "10.1016/0021-9991(83)90014-1"),
    Work("hardin1973", ("Hardin, R. H.", "Tappert, F. D."), 1973,
         "Applications of the split-step Fourier method to the numerical solution of nonlinear and variable coefficient wave "
         "equations", "SIAM Rev.", "15", "423", ""),
    Work("strang1968", ("Strang, Gilbert",), 1968, "On the construction and comparison of difference schemes",
         "SIAM J. Numer. Anal.", "5", "506-517", "10.1137/0705041"),
    Work("mclachlan2014", ("McLachlan, Robert I.", "Modin, Klas", "Verdier, Olivier"), 2014,
         "Symplectic integrators for spin systems", "Phys. Rev. E", "89", "061301", "10.1103/PhysRevE.89.061301"),
    Work("takahashi1984", ("Takahashi, Minoru", "Imada, Masatoshi"), 1984,
         "Monte Carlo calculation of quantum systems. II. Higher order correction",
         "J. Phys. Soc. Jpn.", "53", "3765-3769", "10.1143/JPSJ.53.3765"),
    Work("barnes1986", ("Barnes, Josh", "Hut, Piet"), 1986,
         "A hierarchical O(N log N) force-calculation algorithm", "Nature", "324", "446-449", "10.1038/324446a0"),
    Work("boris1970", ("Boris, Jay P.",), 1970, "Relativistic plasma simulation: optimization of a hybrid code",
         "Proc. Fourth Conf. Num. Sim. Plasmas, Naval Res. Lab., Washington", "", "3-67", ""),
    Work("higuera2017", ("Higuera, Adam V.", "Cary, John R."), 2017,
         "Structure-preserving second-order integration of relativistic charged particle trajectories in "
         "electromagnetic fields",
         "Phys. Plasmas", "24", "052104", "10.1063/1.4979989"),
    Work("vay2008", ("Vay, Jean-Luc",), 2008,
         "Simulation of beams or plasmas crossing at relativistic velocity",
         "Phys. Plasmas", "15", "056701", "10.1063/1.2837054"),
    Work("he2015", ("He, Yang", "Sun, Yajuan", "Liu, Jian", "Qin, Hong"), 2015,
         "Volume-preserving algorithms for charged particle dynamics",
         "J. Comput. Phys.", "281", "135-147", "10.1016/j.jcp.2014.10.032"),
    Work("yoshida1990", ("Yoshida, Haruo",), 1990,
         "Construction of higher order symplectic integrators",
         "Phys. Lett. A", "150", "262-268", "10.1016/0375-9601(90)90092-3"),
    Work("suzuki1990", ("Suzuki, Masuo",), 1990,
         "Fractal decomposition of exponential operators with applications to many-body theories and Monte Carlo simulations",
         "Phys. Lett. A", "146", "319-323", "10.1016/0375-9601(90)90962-N"),
    Work("wisdom1991", ("Wisdom, Jack", "Holman, Matthew"), 1991, "Symplectic maps for the n-body problem",
         "Astron. J.", "102", "1528-1538", "10.1086/115978"),
    Work("wisdom1996", ("Wisdom, Jack", "Holman, Matthew", "Touma, Jihad"), 1996, "Symplectic correctors",
         "Fields Inst. Commun.", "10", "217-244"),
    Work("tuckerman1992", ("Tuckerman, Mark", "Berne, Bruce J.", "Martyna, Glenn J."), 1992,
         "Reversible multiple time scale molecular dynamics", "J. Chem. Phys.", "97", "1990-2001", "10.1063/1.463137"),
    Work("mclachlan1995", ("McLachlan, Robert I.",), 1995,
         "On the numerical integration of ordinary differential equations by symmetric composition methods",
         "SIAM J. Sci. Comput.", "16", "151-168", "10.1137/0916010"),
    Work("mclachlan1995b", ("McLachlan, Robert I.",), 1995,
         "Composition methods in the presence of small parameters", "BIT", "35", "258-268", "10.1007/BF01737165"),
    Work("chin1997", ("Chin, Siu A.",), 1997,
         "Symplectic integrators from composite operator factorizations",
         "Phys. Lett. A", "226", "344-348", "10.1016/S0375-9601(97)00003-0"),
    Work("kahan1997", ("Kahan, William", "Li, Ren-Cang"), 1997,
         "Composition constants for raising the orders of unconventional schemes for ordinary differential equations",
         "Math. Comp.", "66", "1089-1099", "10.1090/S0025-5718-97-00873-9"),
    Work("preto1999", ("Preto, Miguel", "Tremaine, Scott"), 1999,
         "A class of symplectic integrators with adaptive time step for separable Hamiltonian systems",
         "Astron. J.", "118", "2532-2541", "10.1086/301102"),
    Work("mikkola1999", ("Mikkola, Seppo", "Tanikawa, Kiyotaka"), 1999,
         "Explicit symplectic algorithms for time-transformed Hamiltonians",
         "Celest. Mech. Dyn. Astron.", "74", "287-295", "10.1023/A:1008368322547"),
    Work("blanes2000", ("Blanes, Sergio", "Casas, Fernando", "Ros, José"), 2000,
         "Improved high order integrators based on the Magnus expansion",
         "BIT", "40", "434-450", "10.1023/A:1022311628317"),
    Work("garcia1999", ("García-Archilla, Bosco", "Sanz-Serna, Jesús María", "Skeel, Robert D."), 1999,
         "Long-time-step methods for oscillatory differential equations",
         "SIAM J. Sci. Comput.", "20", "930-963", "10.1137/S1064827596313851"),
    Work("dormand1980", ("Dormand, John R.", "Prince, Peter J."), 1980, "A family of embedded Runge-Kutta formulae",
         "J. Comput. Appl. Math.", "6", "19-26", "10.1016/0771-050X(80)90013-3"),
    Work("prince1981", ("Prince, Peter J.", "Dormand, John R."), 1981, "High order embedded Runge-Kutta formulae",
         "J. Comput. Appl. Math.", "7", "67-75", "10.1016/0771-050X(81)90010-3"),
    Work("hairer1996", ("Hairer, Ernst", "Wanner, Gerhard"), 1996,
         "Solving Ordinary Differential Equations II: Stiff and Differential-Algebraic Problems",
         "Springer Series in Computational Mathematics", "14", "", "10.1007/978-3-642-05221-7"),
    Work("hairer1999", ("Hairer, Ernst", "Wanner, Gerhard"), 1999, "Stiff differential equations solved by Radau methods",
         "J. Comput. Appl. Math.", "111", "93-111", "10.1016/S0377-0427(99)00134-X"),
    Work("sommeijer1998", ("Sommeijer, Ben P.", "Shampine, Lawrence F.", "Verwer, Jan G."), 1998,
         "RKC: An explicit solver for parabolic PDEs", "J. Comput. Appl. Math.", "88", "315-326",
         "10.1016/S0377-0427(97)00219-7"),
    Work("abdulle2002", ("Abdulle, Assyr",), 2002, "Fourth order Chebyshev methods with recurrence relation",
         "SIAM J. Sci. Comput.", "23", "2041-2054", "10.1137/S1064827500379549"),
    Work("jorba2005", ("Jorba, Àngel", "Zou, Maorong"), 2005,
         "A software package for the numerical integration of ODEs by means of high-order Taylor methods",
         "Experiment. Math.", "14", "99-117", "10.1080/10586458.2005.10128904"),
    Work("itoh1988", ("Itoh, Toshiaki", "Abe, Kanji"), 1988,
         "Hamiltonian-conserving discrete canonical equations based on variational difference quotients",
         "J. Comput. Phys.", "76", "85-102", "10.1016/0021-9991(88)90132-5"),
    Work("gonzalez1996", ("Gonzalez, Oscar",), 1996, "Time integration and discrete Hamiltonian systems",
         "J. Nonlinear Sci.", "6", "449-467", "10.1007/BF02440162"),
    Work("quispel2008", ("Quispel, G. Reinout W.", "McLaren, David I."), 2008,
         "A new class of energy-preserving numerical integration methods",
         "J. Phys. A", "41", "045206", "10.1088/1751-8113/41/4/045206"),
    Work("marsden2001", ("Marsden, Jerrold E.", "West, Matthew"), 2001,
         "Discrete mechanics and variational integrators",
         "Acta Numerica", "10", "357-514", "10.1017/S096249290100006X"),
    Work("laskar2001", ("Laskar, Jacques", "Robutel, Philippe"), 2001,
         "High order symplectic integrators for perturbed Hamiltonian systems",
         "Celest. Mech. Dyn. Astron.", "80", "39-62", "10.1023/A:1012098603882"),
    Work("blanes2002", ("Blanes, Sergio", "Moan, Per Christian"), 2002,
         "Practical symplectic partitioned Runge-Kutta and Runge-Kutta-Nyström methods",
         "J. Comput. Appl. Math.", "142", "313-330", "10.1016/S0377-0427(01)00492-7"),
    Work("omelyan2003", ("Omelyan, Igor P.", "Mryglod, Ihor M.", "Folk, Reinhard"), 2003,
         "Symplectic analytically integrable decomposition algorithms: classification, derivation, and application to "
         "molecular dynamics, quantum and celestial mechanics simulations",
         "Comput. Phys. Commun.", "151", "272-314", "10.1016/S0010-4655(02)00754-3"),
    Work("sofroniou2005", ("Sofroniou, Mark", "Spaletta, Giulia"), 2005,
         "Derivation of symmetric composition constants for symmetric integrators",
         "Optim. Methods Softw.", "20", "597-613", "10.1080/10556780500140664"),
    Work("blanes2013", ("Blanes, Sergio", "Casas, Fernando", "Farrés, Ariadna", "Laskar, Jacques", "Makazaga, Joseba",
                        "Murua, Ander"), 2013,
         "New families of symplectic splitting methods for numerical integration in dynamical astronomy",
         "Appl. Numer. Math.", "68", "58-72", "10.1016/j.apnum.2013.01.003"),
)
# fmt: on
BIBLIOGRAPHY = {w.key: w for w in WORKS}
BY_LINE = {w.short: w for w in WORKS}


def work(source: str) -> Work:
    """The work that a source names: by its key, or by its line."""
    return BIBLIOGRAPHY[source] if source in BIBLIOGRAPHY else BY_LINE[source]
