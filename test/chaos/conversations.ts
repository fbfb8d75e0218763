// Conversations that the server keeps: what was said first is known when somebody goes on from it, also after the server
// was stopped in between. The answer is the one that the whole conversation gets when it is sent at once.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from './accounts.ts';
import type { CompletionAnswer } from './answer.ts';
import { askKnown, calmly, learnAnswer } from './asking.ts';
import { FIRST_MODEL, type KnownRequest } from './catalogue.ts';
import type { Chance } from './chance.ts';
import { patient } from './exchange.ts';
import { freeAccounts, type Trial } from './trial.ts';

const settings = { model: FIRST_MODEL, temperature: 0, max_output_tokens: 24 };
const question = { role: 'user', content: 'Who walked through the forest?' };
const further = { role: 'user', content: 'And where did they go?' };

const opening = kept('conversation, first turn', [question]);

function kept(name: string, input: readonly object[], more: object = {}): KnownRequest {
  const body = { ...settings, input, ...more };
  return { name, path: '/v1/responses', body, streams: true, longPrompt: false };
}

/** Nothing kept is needed for it. */
export async function learnConversation(trial: Trial): Promise<void> {
  const [account] = freeAccounts(trial) as [Account];
  const first = await learnAnswer(trial, opening, account);
  trial.references.set(opening.name, first);
  const said = (first.answer as CompletionAnswer).choices[0]?.text ?? '';
  const whole = kept('conversation, second turn', [question, { role: 'assistant', content: said }, further]);
  trial.references.set(whole.name, await learnAnswer(trial, whole, account));
}

export async function conversationClient(trial: Trial, chance: Chance, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    await sleep(chance.between(500, 4000));
    const account = chance.pick(freeAccounts(trial));
    const begun = await askKnown(trial, opening, account, { ...calmly, calm: false });
    if (begun.kind !== 'answer' || begun.id === undefined) continue;
    const heardMs = performance.now();
    await sleep(chance.between(0, 15_000));
    // A server that is killed may lose what it had not written yet.
    if (trial.outages.during(heardMs, performance.now())?.kind === 'cut') continue;
    const next = kept('conversation, second turn', [further], { previous_response_id: begun.id });
    await askKnown(trial, next, account, { stream: chance.happens(0.5), manner: patient });
  }
}
