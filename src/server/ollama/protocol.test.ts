import { describe, expect, it } from 'vitest';
import type { ServedModel } from '../../pool/served-model.ts';
import { chatTemplate } from '../../text/chat-template.ts';
import type { RequestContext } from '../request/request-scope.ts';
import { chatProtocol, rawProtocol } from './protocol.ts';
import type { ChatGiven } from './schema.ts';

const served = (template: string): ServedModel =>
  ({
    template: chatTemplate({ template, specialTokens: {} }),
    spec: { contextLength: 4096 },
    blockCount: 64,
  }) as unknown as ServedModel;

const caller = { keyId: 'key_1', admin: false, tier: 'normal', limits: {} };
const incoming = { caller } as RequestContext;
const notes = (given: Partial<ChatGiven>, template: string) =>
  chatProtocol.check?.({ model: 'm', ...given }, served(template), incoming);

const plain = '{{ messages[0].content }}';
const thinker = '{{ messages[0].content }}<think>';
const switched = '{% if enable_thinking %}<think>{% endif %}';
const graded = '<think>{{ reasoning_effort }}';

describe('what a model can do of what is asked', () => {
  it.each<[Partial<ChatGiven>, string, RegExp | undefined]>([
    [{ think: true }, switched, undefined],
    [{ think: false }, switched, undefined],
    [{ think: false }, plain, undefined],
    [{ think: true }, thinker, /cannot be told whether/],
    [{ think: 'low' }, switched, /no levels/],
    [{ think: 'low' }, graded, undefined],
    [{ options: { num_ctx: 2048 } }, plain, undefined],
    [{ options: { num_ctx: 4096 } }, plain, /takes 2048 tokens, not 4096/],
    [{ keep_alive: '5m' }, plain, /admin/],
  ])('%j with %j is said in a header', (given, template, expected) => {
    const said = notes(given, template)?.join() ?? '';
    if (expected === undefined) expect(said).toBe('');
    else expect(said).toMatch(expected);
  });

  it('is refused where the model does not think', () => {
    expect(() => notes({ think: true }, plain)).toThrow(/^think: the model 'm' does not think/);
    expect(() => notes({ think: 'high' }, plain)).toThrow(/^think: /);
  });

  it('names parameters as they were written', () => {
    const names = rawProtocol.kind.names({ prompt: 'x' });
    expect(names).toMatchObject({ repetitionPenalty: 'options.repeat_penalty', prompt: 'prompt' });
    expect(rawProtocol.kind.maxTokens({ prompt: 'x' })).toBeUndefined();
  });
});
