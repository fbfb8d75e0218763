// What comes to an open port that is no request: other protocols, halves of requests, silence.

import { connect } from 'node:net';
import type { Trial } from './trial.ts';

/** A client without an answer by then leaves. */
const PATIENCE_MS = 3000;

const garbage: readonly (string | Buffer)[] = [
  '',
  'HELO there\r\n\r\n',
  // The beginning of a TLS handshake.
  Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]),
  'GET /health HTTP/1.1\r\nhost: x\r\nbroken header\r\n\r\n',
  `GET /health HTTP/1.1\r\nhost: x\r\nx-long: ${'a'.repeat(100_000)}\r\n\r\n`,
  'POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{"prom',
  'POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno number\r\n',
  'POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}',
  'GET /health HTTP/1.1\r\nho',
];

/** Whatever the server says to it, it must be a refusal. */
export async function sendGarbage(trial: Trial): Promise<void> {
  await Promise.all(
    garbage.map(async (bytes) => {
      const answer = await reply(trial.server.url, bytes);
      if (answer === '' || /^HTTP\/1\.1 4\d\d /.test(answer)) return;
      trial.violations.add('garbage was answered', answer.slice(0, 300), String(bytes).slice(0, 100));
    }),
  );
}

/** All that comes back until either side has enough. */
function reply(url: string, bytes: string | Buffer): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    const timer = setTimeout(() => socket.destroy(), PATIENCE_MS);
    socket.setEncoding('latin1').on('data', (text: string) => {
      answer += text;
    });
    // A server that cuts the connection has answered, too.
    socket.on('error', () => {});
    socket.once('close', () => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}
