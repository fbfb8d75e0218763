// GET /whoami: what the server knows of who asks, so that a page can show what they may do.

import type { FastifyInstance } from 'fastify';
import { ANONYMOUS_KEY_ID } from '../../store/key-record.ts';
import type { ServerContext } from '../context.ts';
import type { WhoAmI } from '../live/live-event.ts';
import type { Caller } from '../request/auth.ts';

export function whoamiRoute(app: FastifyInstance, context: ServerContext): void {
  const { version, settings, downloads, keyStore, fleet } = context;
  app.get('/whoami', async (request): Promise<WhoAmI> => {
    const { keyId, name, admin, tier } = request.caller as Caller;
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
  });
}
