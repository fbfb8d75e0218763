import { expect, it } from 'vitest';
import { engineRequest } from '../../test/support/engine-requests.ts';
import { MAX_GRAMMARS } from '../engine/grammars.ts';
import type { AnswerRequest } from '../engine/request.ts';
import { SentGrammars } from './sent-grammars.ts';

const withGrammar = (key: string) =>
  ({
    ...engineRequest({ prompt: [1] }),
    grammar: { tables: { key, starts: [0] }, continues: true },
  }) as unknown as AnswerRequest;

it('sends tables once, then their key, until the engine has dropped them or is another one', () => {
  const sent = new SentGrammars();
  const plain = engineRequest({ prompt: [1] });
  expect(sent.pack(plain)).toBe(plain);
  const request = withGrammar('a');
  const named = { ...request, grammar: { tables: { key: 'a' }, continues: true } };
  expect(sent.pack(request)).toBe(request);
  expect(sent.pack(request)).toEqual(named);
  sent.forget('a');
  expect(sent.pack(request)).toBe(request);
  sent.clear();
  expect(sent.pack(request)).toBe(request);
  for (let n = 1; n < MAX_GRAMMARS; n++) sent.pack(withGrammar(String(n)));
  expect(sent.pack(request)).toEqual(named);
  for (let n = 0; n < MAX_GRAMMARS; n++) sent.pack(withGrammar(`later ${n}`));
  expect(sent.pack(request)).toBe(request);
});
