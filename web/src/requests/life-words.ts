// A request's life in plain words.

import type { PrefixLookup, TraceEvent } from '../../../src/server/live/live-event.ts';
import { count, counted } from '../text/format.ts';

const events: Readonly<Record<TraceEvent['what'], string>> = {
  arrived: 'came to the server',
  submitted: 'was handed to the engine, and waited for a seat',
  admitted: 'got on: its prompt began to be computed',
  'first-token': 'its first token was there',
  preempted: 'had to get off, because others needed its blocks',
  resumed: 'got on again',
  'engine-died': 'its engine died; another one takes over where it was',
  ended: 'got off for good',
};

export function eventWords(what: TraceEvent['what']): string {
  return events[what];
}

export function missWords({ promptTokens, cachedTokens, why, firstDifference }: PrefixLookup): string {
  const rest = promptTokens - cachedTokens;
  if (rest <= 0) return 'Nothing of it had to be computed.';
  const computed = `${counted(rest, 'token')} had to be computed`;
  switch (why) {
    case 'end':
      return `${computed}: less than a block was left, or only the last token, which always is.`;
    case 'new':
      return `${computed}: nobody had sent what comes there before.`;
    case 'differs':
      return `${computed}: ${
        firstDifference === undefined
          ? 'something else came there in the nearest prompt that was kept.'
          : `from token ${count(firstDifference)} on it differs from the nearest prompt that was kept.`
      }`;
    case 'evicted':
      return `${computed}: it was kept once, but its blocks were needed for others.`;
    case 'tenant':
      return `${computed}: another key has sent the same, and keys do not share what is cached.`;
    case 'not-shared':
      return `${computed}: this kind of request takes nothing from the cache.`;
  }
}
