// GET /whoami: what the server knows of the caller, so that the page can show what they may do.

import type { FastifyRequest } from 'fastify';
import { ANONYMOUS_KEY_ID } from '../../store/key-record.ts';
import type { ServerContext } from '../context.ts';
import type { WhoAmI } from '../live/live-event.ts';
import { callerOf } from '../request/auth.ts';
import type { Route } from '../route.ts';

export function whoamiRoute(context: ServerContext): Route {
  return {
    method: 'GET',
    url: '/whoami',
    access: 'key',
    atBothAddresses: true,
    summary: 'What the server knows of who asks',
    handler: async (request) => whoAmI(context, request),
  };
}

function whoAmI(context: ServerContext, request: FastifyRequest): WhoAmI {
  const { version, settings, downloads, keyStore, fleet } = context;
  const { keyId, name, admin, tier } = callerOf(request);
  const anonymous = keyId === ANONYMOUS_KEY_ID;
  return {
    version,
    anonymous,
    admin,
    ...(name === undefined ? {} : { name }),
    tier,
    keysNeeded: !anonymous,
    logPrompts: settings.logPrompts,
    canPull: admin && downloads !== undefined,
    hasKeyStore: keyStore !== undefined,
    inFleet: fleet !== undefined,
  };
}
