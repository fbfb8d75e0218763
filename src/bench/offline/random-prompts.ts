// Prompts of random tokens: no two begin alike, so none finds another's prefix in the cache.

export type NextPrompt = (tokens: number) => Int32Array;

/** The same prompts in the same order every time. */
export function randomPrompts(vocabSize: number): NextPrompt {
  let state = 1;
  const draw = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * vocabSize);
  };
  return (tokens) => Int32Array.from({ length: tokens }, draw);
}
