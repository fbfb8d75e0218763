// What a client should know of its request though it is served: said in a header.

import type { FastifyReply } from 'fastify';

export function warn(reply: FastifyReply, warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  const before = reply.getHeader('x-chairlift-warning');
  const all = [...(before === undefined ? [] : [String(before)]), ...warnings].join('; ');
  reply.header('x-chairlift-warning', all.slice(0, 2000).replace(/[^\x20-\x7e]/g, '?'));
}
