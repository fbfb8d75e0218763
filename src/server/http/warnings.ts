// Warnings for clients, in a header of a response that succeeds.

import type { FastifyReply } from 'fastify';

export function warn(reply: FastifyReply, warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  const before = reply.getHeader('x-chairlift-warning');
  const all = [...(before === undefined ? [] : [String(before)]), ...warnings].join('; ');
  reply.header('x-chairlift-warning', all.slice(0, 2000).replace(/[^\x20-\x7e]/g, '?'));
}

export function warnOfUnknown(reply: FastifyReply, unknown: readonly string[]): void {
  warn(reply, unknown.length > 0 ? [unknownWarning(unknown)] : []);
}

/** The value of the header that names unknown parameters. */
export function unknownWarning(names: readonly string[]): string {
  const listed = names.slice(0, 16).map((name) => name.slice(0, 64).replace(/[^\x21-\x7e]/g, '?'));
  return `unknown parameters were ignored: ${listed.join(', ')}${names.length > 16 ? ', ...' : ''}`;
}
