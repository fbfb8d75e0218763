// Bounds the cost of finding the next tokens, so that no grammar delays the answers of others. Counted in steps of
// tens of nanoseconds: a clock would make answers differ between machines.

/** Initial steps, when nothing is known of the grammar yet. */
const AT_FIRST = 8_000_000;
/** Added for each token. */
const PER_TOKEN = 500_000;

/** The text has too many parses. */
export class BudgetExceeded extends Error {
  override readonly name = 'BudgetExceeded';

  constructor() {
    super('the grammar is too ambiguous: what may follow the text so far takes too long to find out');
  }
}

/** The steps left of the current search. */
export class StepBudget {
  left = Number.POSITIVE_INFINITY;

  spend(steps: number): void {
    this.left -= steps;
    if (this.left < 0) throw new BudgetExceeded();
  }
}

/** The steps left of one answer. */
export class AnswerBudget {
  #left: number;

  constructor(steps = AT_FIRST) {
    this.#left = steps;
  }

  renew(): void {
    this.#left = Math.min(this.#left + PER_TOKEN, AT_FIRST);
  }

  within<Result>(budget: StepBudget, look: () => Result): Result {
    budget.left = this.#left;
    try {
      return look();
    } finally {
      this.#left = Math.max(0, budget.left);
      budget.left = Number.POSITIVE_INFINITY;
    }
  }
}
