// Work in steps of a few milliseconds at most, so that other work can run in between.

export type Steps<Result = void> = Generator<void, Result, void>;

export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** UTF-16 units, symbols or merges in one step. */
export const STEP_SIZE = 8192;

/** A text in parts of one step each, never within a character. */
export function* partsOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    let end = Math.min(text.length, start + STEP_SIZE);
    if (end < text.length && (text.codePointAt(end - 1) as number) > 0xffff) end++;
    yield text.slice(start, end);
    start = end;
  }
}
