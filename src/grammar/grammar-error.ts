// Why a grammar is refused.

export type GrammarProblem = 'malformed' | 'unsupported' | 'too-large' | 'empty';

export class GrammarError extends Error {
  override readonly name = 'GrammarError';
  readonly problem: GrammarProblem;
  readonly keyword: string | undefined;

  constructor(problem: GrammarProblem, message: string, keyword?: string) {
    super(message);
    this.problem = problem;
    this.keyword = keyword;
  }
}

export function malformed(message: string): GrammarError {
  return new GrammarError('malformed', message);
}

export function tooLarge(what: string): GrammarError {
  return new GrammarError('too-large', `${what}: the grammar is too large`);
}
