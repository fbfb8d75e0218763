// Which tokens of a block stand for images. A text of it is part of what the prefix cache compares: equal placeholders of two
// images are equal tokens, but never equal blocks.

import { BLOCK_TOKENS } from '../../compute/backend.ts';

export interface PlacedImage {
  /** What has the same key has the same features. */
  readonly key: string;
  /** Positions of the tokens that stand for its features, ascending. */
  readonly places: Int32Array;
}

/** Tokens of an image that follow each other: so many, from which of its features on. */
type Run = readonly [count: number, feature: number, key: string];

interface Span {
  readonly first: number;
  end: number;
  readonly runs: Run[];
}

export class BlockImages {
  /** By block. */
  readonly #texts: string[] = [];

  /** `whole`: a prompt whose tokens all see each other, from which follow all of its keys and values. */
  constructor(images: readonly PlacedImage[], whole?: Int32Array) {
    const spans = new Map<number, string[]>();
    const own = whole && [{ first: 0, end: whole.length, runs: spansOf(images), tokens: [...whole] }];
    for (const { first, end, ...content } of own ?? spansOf(images)) {
      for (let block = Math.floor(first / BLOCK_TOKENS); block * BLOCK_TOKENS < end; block++) {
        // Tokens of a span may see each other: whoever has one of them has them all.
        const text = JSON.stringify([first - block * BLOCK_TOKENS, content]);
        spans.set(block, [...(spans.get(block) ?? []), text]);
      }
    }
    for (const [block, texts] of spans) this.#texts[block] = texts.join();
  }

  /** Of the block that begins at a position: the same for those alone that show the same at the same place. Empty: no image. */
  at(offset: number): string {
    return this.#texts[offset / BLOCK_TOKENS] ?? '';
  }
}

interface Holder {
  readonly images?: { readonly blocks: Pick<BlockImages, 'at'> } | undefined;
}

export function imagesAt({ images }: Holder, offset: number): string {
  return images === undefined ? '' : images.blocks.at(offset);
}

/** The first token of the block that stands for an image. */
export function firstImageToken(text: string): number {
  // It begins with where its first span does.
  return text === '' ? BLOCK_TOKENS : Math.max(0, Number.parseInt(text.slice(1), 10));
}

/** Tokens that stand for images and follow each other, whichever images these are. */
function spansOf(images: readonly PlacedImage[]): Span[] {
  const spans: Span[] = [];
  for (const { key, places } of images) {
    for (let from = 0; from < places.length; ) {
      let to = from + 1;
      while (to < places.length && (places[to] as number) === (places[to - 1] as number) + 1) to++;
      const first = places[from] as number;
      const run: Run = [to - from, from, key];
      const last = spans.at(-1);
      if (last?.end === first) {
        last.runs.push(run);
        last.end += to - from;
      } else spans.push({ first, end: first + to - from, runs: [run] });
      from = to;
    }
  }
  return spans;
}
