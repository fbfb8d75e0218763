// /admin/settings: the settings that count, and where each comes from, without secrets.

import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import type { Route } from '../route.ts';

export function settingsRoute({ effectiveSettings }: ServerContext): Route {
  return {
    method: 'GET',
    url: '/admin/settings',
    access: 'admin',
    summary: 'The settings that count, and where each comes from; secrets are hidden',
    handler: async () => {
      if (effectiveSettings !== undefined) return { object: 'settings', ...(await effectiveSettings()) };
      throw new ApiError(501, 'this server does not know its settings', { code: 'no_settings' });
    },
  };
}
