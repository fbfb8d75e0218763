import { describe, expect, it } from 'vitest';
import type { ShapeOptions } from '../jobs/answer-shape.ts';
import { AnswerExtras } from './answer-extras.ts';

const piece = (token: number) => ({ parts: [], details: [], token });
const extras = (body: object) => new AnswerExtras({} as ShapeOptions, body);

describe('token ids of a stream', () => {
  it('come with the next chunk of their choice, once', () => {
    const some = extras({ return_token_ids: true });
    some.stream(0, piece(5));
    some.stream(1, piece(6));
    some.stream(0, piece(7));
    expect(some.ofChunk(0)).toEqual({ token_ids: [5, 7] });
    expect(some.ofChunk(0)).toEqual({ token_ids: [] });
    expect(some.ofChunk(1)).toEqual({ token_ids: [6] });
  });

  it.each([true, false])('cost a long stream no more for its last token than for its first: %s', (asked) => {
    const long = extras({ return_token_ids: asked });
    for (let token = 0; token < 500_000; token++) long.stream(0, piece(token));
    expect(long.ofChunk(0)).toEqual(
      asked ? { token_ids: Array.from({ length: 500_000 }, (_, token) => token) } : {},
    );
  });
});
