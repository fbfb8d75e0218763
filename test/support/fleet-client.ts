// A client that loses nothing: where its gateway is gone, it comes back to its request at the next one, with the last event
// that it has.

import { setTimeout as sleep } from 'node:timers/promises';

export interface FleetAnswer {
  readonly text: string;
  readonly finishReason: string | undefined;
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number } | undefined;
  /** How often it had to come back. */
  readonly returns: number;
}

const AGAIN_MS = 250;

interface Progress {
  text: string;
  finishReason: string | undefined;
  usage: FleetAnswer['usage'];
  lastId: string | undefined;
  done: boolean;
}

interface FleetClientOptions {
  readonly gateways: readonly string[];
  readonly key?: string | undefined;
  /** No answer takes longer. */
  readonly limitMs: number;
}

/** Asks the gateway of this number first. Throws where there is no whole answer in time, or a refusal that stays. */
export async function askFleet(
  { gateways, key, limitMs }: FleetClientOptions,
  id: string,
  body: object,
  first = 0,
): Promise<FleetAnswer> {
  const endMs = Date.now() + limitMs;
  const so: Progress = {
    text: '',
    finishReason: undefined,
    usage: undefined,
    lastId: undefined,
    done: false,
  };
  let begun = false;
  let problem = '';
  for (let attempt = 0; Date.now() < endMs; attempt++) {
    const gateway = gateways[(first + attempt) % gateways.length] as string;
    const headers = {
      'content-type': 'application/json',
      'x-request-id': id,
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(begun ? { 'last-event-id': so.lastId ?? '0' } : {}),
    };
    const wanted = { ...body, stream: true, stream_options: { include_usage: true } };
    try {
      const response = await fetch(`${gateway}/v1/chat/completions`, {
        method: 'POST',
        headers,
        ...(begun ? {} : { body: JSON.stringify(wanted) }),
        signal: AbortSignal.timeout(Math.max(1, endMs - Date.now())),
      });
      if (response.status === 404 && begun) begun = false;
      else if (response.ok) {
        begun = true;
        await readEvents(response, so);
        if (so.done) return { ...so, returns: attempt };
      } else {
        problem = `${response.status} ${await response.text()}`;
        if (response.status < 500 && response.status !== 429) break;
      }
    } catch (error) {
      problem = String(error);
    }
    await sleep(AGAIN_MS);
  }
  throw new Error(`request ${id} was not answered: ${problem}`);
}

async function readEvents(response: Response, so: Progress): Promise<void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    rest += decoder.decode(chunk, { stream: true });
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      readEvent(rest.slice(0, end), so);
      rest = rest.slice(end + 2);
    }
  }
}

function readEvent(event: string, so: Progress): void {
  const data = /^data: (.*)$/m.exec(event)?.[1];
  if (data === undefined) return;
  if (data === '[DONE]') {
    so.done = true;
    return;
  }
  const message = JSON.parse(data) as {
    readonly error?: { readonly message: string };
    readonly choices?: readonly {
      readonly delta: { readonly content?: string };
      readonly finish_reason: string | null;
    }[];
    readonly usage?: FleetAnswer['usage'] | null;
  };
  if (message.error !== undefined) throw new Error(message.error.message);
  so.lastId = /^id: (.*)$/m.exec(event)?.[1] ?? so.lastId;
  const [choice] = message.choices ?? [];
  so.text += choice?.delta.content ?? '';
  so.finishReason = choice?.finish_reason ?? so.finishReason;
  so.usage = message.usage ?? so.usage;
}
