// A download that cannot be done or go on: the message says why and what to do.

interface FileChoice {
  readonly path: string;
  readonly sizeBytes: number;
}

export class PullError extends Error {
  override readonly name = 'PullError';
  /** Files to choose from, where the user has to. */
  readonly choices: readonly FileChoice[];

  constructor(message: string, choices: readonly FileChoice[] = []) {
    super(message);
    this.choices = choices;
  }
}
