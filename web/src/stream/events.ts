// Server-sent events read with fetch, which can send a key in a header; EventSource cannot.

import { linesOf } from './lines.ts';

export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

export async function* eventsOf(response: Response, onBytes?: () => void): AsyncGenerator<ServerEvent> {
  let event = 'message';
  let data: string[] = [];
  for await (const line of linesOf(response, onBytes)) {
    if (line === '') {
      if (data.length > 0) yield { event, data: data.join('\n') };
      event = 'message';
      data = [];
    } else if (line.startsWith('event:')) event = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
  }
}
