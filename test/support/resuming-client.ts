// A client that comes back: whatever ends its connection, it asks for the rest of its stream, until it has the end.

import { request as httpRequest, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ResumedAsk {
  readonly path: string;
  readonly body: object;
  readonly key: string;
  /** The same each time it asks. */
  readonly id: string;
}

export interface ResumedStream {
  /** Data of events that have an id, in order. */
  readonly events: readonly unknown[];
  /** How often it came back. */
  readonly returns: number;
  /** What it was told by servers that ended its connections in good order. */
  readonly told: readonly string[];
}

interface SentEvent {
  readonly id: string | undefined;
  readonly data: string;
  readonly name: string | undefined;
}

const AGAIN_MS = 50;

/**
 * `after`: the last event that it has. Rejects with what the server says where it has not the request any more. A connection that
 * was lost before an answer leaves open whether the request was kept: it asks for the rest first, and anew where nothing is known.
 */
export async function resumedStream(
  url: string,
  ask: ResumedAsk,
  onEvent: (count: number) => void = () => {},
  after?: string,
): Promise<ResumedStream> {
  const events: unknown[] = [];
  const told: string[] = [];
  let last = after;
  let hasAnswer = after !== undefined;
  let mayBeKnown = hasAnswer;
  for (let returns = 0; ; returns++) {
    try {
      const response = await post(url, ask, mayBeKnown ? (last ?? '0') : undefined);
      if (response.statusCode === 404 && mayBeKnown && !hasAnswer) {
        mayBeKnown = false;
        response.resume();
        continue;
      }
      if (response.statusCode !== 200) await refuse(response, events.length);
      hasAnswer = true;
      for await (const { id, data, name } of eventsIn(response)) {
        if (data === '[DONE]') return { events, returns, told };
        const value = JSON.parse(data) as { error?: { message: string } };
        if (value.error !== undefined) {
          if (!value.error.message.includes('is shutting down'))
            throw new Refused(JSON.stringify(value.error));
          told.push(value.error.message);
          continue;
        }
        if (id === undefined) throw new Refused(`an event without an id: ${data}`);
        last = id;
        events.push(value);
        onEvent(events.length);
        if (name === 'message_stop') return { events, returns, told };
      }
    } catch (error) {
      if (error instanceof Refused) throw error;
      mayBeKnown = true;
    }
    await sleep(AGAIN_MS);
  }
}

class Refused extends Error {}

/** A server that is starting or ending may say so. One that was killed before it kept the request knows nothing of it. */
async function refuse(response: IncomingMessage, heard: number): Promise<never> {
  let text = '';
  for await (const piece of response) text += String(piece);
  if (response.statusCode === 503 || response.statusCode === 429) throw new Error('later');
  throw new Refused(`${response.statusCode} after ${heard} events: ${text}`);
}

function post(
  url: string,
  { path, body, key, id }: ResumedAsk,
  last: string | undefined,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${key}`,
      'x-request-id': id,
      ...(last === undefined ? {} : { 'last-event-id': last }),
    };
    const request = httpRequest(`${url}${path}`, { method: 'POST', headers, agent: false }, resolve);
    request.on('error', reject);
    request.end(last === undefined ? JSON.stringify({ ...body, stream: true }) : '');
  });
}

/** Whole ones alone: what breaks off in the middle of an event is none. */
async function* eventsIn(response: IncomingMessage): AsyncGenerator<SentEvent> {
  let text = '';
  for await (const piece of response.setEncoding('utf8')) {
    text += String(piece);
    const parts = text.split('\n\n');
    text = parts.pop() ?? '';
    for (const part of parts) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(part)?.[1];
      const data = field('data');
      if (data !== undefined) yield { id: field('id'), data, name: field('event') };
    }
  }
}
