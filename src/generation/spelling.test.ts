import { describe, expect, it } from 'vitest';
import { embeddedTokenizer as tokenizer } from '../../test/support/embedded-engine.ts';
import { spellingOf } from './spelling.ts';

const bytesOf = (id: number) => Buffer.from(tokenizer.tokenBytes(id)).toString('latin1');

describe('a sequence breaker', () => {
  it.each(['\n', 'the', ' once upon', 'été', 'aaaa'])(
    'is every token that has it, and every one that begins it with the tokens of its rest: %j',
    (text) => {
      const bytes = Buffer.from(text).toString('latin1');
      const expected: number[][] = [];
      for (let id = 0; id < tokenizer.vocabSize; id++) {
        if (bytesOf(id).includes(bytes)) {
          expected.push([id]);
          continue;
        }
        for (let length = bytes.length - 1; length > 0; length--) {
          if (!bytesOf(id).endsWith(bytes.slice(0, length))) continue;
          expected.push([id, ...tokenizer.encode(Buffer.from(bytes.slice(length), 'latin1').toString())]);
        }
      }
      expect(spellingOf(tokenizer).breakerTokens(text)).toEqual(expected);
    },
  );
});
