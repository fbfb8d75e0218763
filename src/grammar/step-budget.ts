// What looking for the next tokens may cost, so that no grammar holds up the answers of others. Counted in small steps of
// equal size, tens of nanoseconds each, since a clock would make answers differ from machine to machine.

/** At once, for an answer's first tokens, when nothing is known of its grammar yet. */
const AT_FIRST = 8_000_000;
/** Further steps for each token. */
const PER_TOKEN = 500_000;

/** The text can be read in too many ways. */
export class BudgetExceeded extends Error {
  override readonly name = 'BudgetExceeded';

  constructor() {
    super('the grammar is too ambiguous: what may follow the text so far takes too long to find out');
  }
}

/** Steps that are left to whoever looks now. */
export class StepBudget {
  left = Number.POSITIVE_INFINITY;

  spend(steps: number): void {
    this.left -= steps;
    if (this.left < 0) throw new BudgetExceeded();
  }
}

/** What one answer may still spend. */
export class AnswerBudget {
  #left: number;

  constructor(steps = AT_FIRST) {
    this.#left = steps;
  }

  /** For a token that has come. */
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
