"""Adadelta with damping of sign changes: the optimiser of the paper's experiments."""

from __future__ import annotations

import numpy as np

from knotwise.optimize.base import Objective, OptimizeResult, OptimizerSettings, Trials


class Adadelta(OptimizerSettings):
    r"""Adadelta (Zeiler 2012) as the paper used it, one step size per coordinate.

    .. math::
        G &\leftarrow \rho\, G + (1-\rho)\, g^2 \\
        \Delta &= \eta^{-c} \sqrt{D + \epsilon}\,/\sqrt{G + \epsilon}\; g \\
        D &\leftarrow \rho\, D + (1-\rho)\, \Delta^2 \\
        c &\leftarrow \rho\, c + (1-\rho)\, \mathbf 1[g \text{ changed its sign}]

    The factor :math:`\eta^{-c}` damps coordinates that oscillate (eta = 1 is plain Adadelta). It stops when one
    step changes the objective by at most `value_tolerance`. With `return_best=False` the last iterate is
    returned, as the paper's program does; by default the best one is. A trial that fails is a shorter step.

    Parameters
    ----------
    max_iterations : int, default 1000
        Limit of iterations; reaching it is not convergence.
    value_tolerance : float, default 0.001
        Stop when one step changes the objective by at most this.
    decay : float, default 0.95
        rho above, between 0 and 1: how long steps and gradients are remembered.
    epsilon : float, default 0.0001
        Added under the roots above; the larger it is, the larger are the first steps.
    eta : float, default 1000.0
        How strongly coordinates are damped that change their sign; 1 is plain Adadelta.
    return_best : bool, default True
        Return the best iterate; False returns the last one, as the paper's program does.

    Examples
    --------
    >>> import numpy as np
    >>> from knotwise import GPRegressor
    >>> from knotwise.optimize import Adadelta
    >>> X = np.linspace(0, 1, 24)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=24)
    >>> gp = GPRegressor(knots=4, optimizer=Adadelta(value_tolerance=0.1), random_state=0).fit(X, y)
    >>> gp.optimize_result_.reason
    'one step changed the objective by ...'
    """

    def __init__(
        self,
        max_iterations: int = 1000,
        value_tolerance: float = 1e-3,
        decay: float = 0.95,
        epsilon: float = 1e-4,
        eta: float = 1e3,
        return_best: bool = True,
    ) -> None:
        self.max_iterations = max_iterations
        self.value_tolerance = value_tolerance
        self.decay = decay
        self.epsilon = epsilon
        self.eta = eta
        self.return_best = return_best

    def maximize(self, objective: Objective, start: np.ndarray, bounds: np.ndarray) -> OptimizeResult:
        trials = Trials(objective)
        x = np.clip(start, bounds[:, 0], bounds[:, 1])
        now = trials(x)
        if now is None or len(x) == 0:
            return trials.result(bounds, True, "nothing to optimise")
        value, g = now
        G, D, c = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        converged, reason = False, f"reached {self.max_iterations} iterations"
        for _ in range(1, self.max_iterations):
            G = self.decay * G + (1 - self.decay) * g**2
            step = self.eta**-c * np.sqrt(D + self.epsilon) / np.sqrt(G + self.epsilon) * g
            trial = trials(np.clip(x + step, bounds[:, 0], bounds[:, 1]))
            halvings = 0
            while trial is None and halvings < 20:
                step, halvings = step / 2, halvings + 1
                trial = trials(np.clip(x + step, bounds[:, 0], bounds[:, 1]))
            if trial is None:
                reason = "no finite value along the gradient"
                break
            D = self.decay * D + (1 - self.decay) * step**2
            x = np.clip(x + step, bounds[:, 0], bounds[:, 1])
            change = trial[0] - value
            value, previous, g = trial[0], g, trial[1]
            c = self.decay * c + (1 - self.decay) * np.abs(np.sign(g) - np.sign(previous)) / 2
            if abs(change) <= self.value_tolerance:
                converged, reason = True, f"one step changed the objective by {abs(change):.1e}"
                break
        if not self.return_best:
            trials.best_value, trials.best = value, (x, g)
        return trials.result(bounds, converged, reason)
