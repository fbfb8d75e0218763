// Work that is done in small steps, so that other work can come in between. A step takes a few milliseconds at most; the
// result does not depend on who runs the steps, or when.

export type Steps<Result = void> = Generator<void, Result, void>;

/** Runs all steps at once. */
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
