// Whether an address can be listened on, found out by doing so for a moment.

import { createServer } from 'node:net';

/** Rejects with the system's error, as whoever listens there would. */
export function tryAddress(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ host, port }, () => server.close(() => resolve()));
  });
}
