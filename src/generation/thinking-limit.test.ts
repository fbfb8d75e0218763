import { describe, expect, it } from 'vitest';
import { embeddedTokenizer as tokenizer } from '../../test/support/embedded-engine.ts';
import type { AnswerFormat } from '../text/formats/format.ts';
import { hermes } from '../text/formats/hermes.ts';
import { markedAnswer } from '../text/formats/marked-answer.ts';
import { think } from '../text/formats/reasoning.ts';
import { thinkingLimit } from './thinking-limit.ts';

describe('the limit of reasoning', () => {
  const model = { tokenizer };
  const marked = (close: string): AnswerFormat =>
    markedAnswer(hermes, { opens: [['<|im_start|>']], closes: [close] });

  it('has the marks of the model as tokens, and knows whether the prompt has begun it', () => {
    const [open, close] = ['<|im_start|>', '<|im_end|>'].map((mark) => [
      ...tokenizer.encode(mark, { special: true }),
    ]);
    const expected = { tokens: 7, opens: [open], closes: [close], ending: close };
    expect(thinkingLimit(7, marked('<|im_end|>'), model, 'x')).toEqual({ ...expected, opened: false });
    expect(thinkingLimit(7, marked('<|im_end|>'), model, 'x<|im_start|>\n')).toEqual({
      ...expected,
      opened: true,
    });
  });

  it('is refused by name where the model does not reason, or has no token that ends it', () => {
    const refused = { parameter: 'thinking_token_budget', code: 'invalid_value' };
    expect(() => thinkingLimit(7, markedAnswer(hermes, undefined), model, '')).toThrow(
      expect.objectContaining(refused),
    );
    // This vocabulary spells it in several tokens.
    expect(() => thinkingLimit(7, markedAnswer(hermes, think), model, '')).toThrow(
      expect.objectContaining(refused),
    );
  });
});
