import { expect, it } from 'vitest';
import { engineRequest } from '../../../test/support/engine-requests.ts';
import { OpenAnswer } from './open-answer.ts';

const times = { nowMs: 0, wallMs: 0 };

it('what ends an answer goes with its last token, also where earlier ones come again', () => {
  const open = new OpenAnswer({ name: 'm', key: 'k' }, engineRequest({ prompt: [1] }), times);
  const { id } = open.request;
  open.accept({ id, attempt: 1, from: 0, tokens: [5] });
  expect(open.accept({ id, attempt: 1, from: 0, tokens: [5, 6, 7], stop: 'eos' })).toEqual([
    { kind: 'token', id, token: 6 },
    { kind: 'token', id, token: 7, stop: 'eos' },
  ]);
  expect(open.accept({ id, attempt: 1, from: 3, tokens: [], stop: 'eos' })).toEqual([]);
});

it('takes an answer of half a million tokens in one message', () => {
  const open = new OpenAnswer({ name: 'm', key: 'k' }, { id: 'r', prompt: Int32Array.of(1) } as never, times);
  const tokens = Array.from({ length: 500_000 }, (_, i) => i % 1000);
  expect(open.accept({ id: 'r', attempt: 1, from: 0, tokens })).toHaveLength(500_000);
  expect(open.tokens).toHaveLength(500_000);
});
