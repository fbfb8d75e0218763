import { describe, expect, it } from 'vitest';
import { start, startWithKeys } from '../../../test/support/keyed-server.ts';
import type { EffectiveSettings } from '../effective-settings.ts';

const known: EffectiveSettings = {
  file: '/etc/chairlift.json',
  settings: [
    {
      name: 'port',
      group: 'Addresses',
      flag: '--port',
      variable: 'CHAIRLIFT_PORT',
      meaning: 'port to listen on',
      default: '8000',
      value: '8080',
      source: 'file',
    },
  ],
};

describe('/admin/settings', () => {
  it('shows admins the settings that count, and nobody else', async () => {
    const keys = { boss: { admin: true }, ann: {} };
    const { call, secrets } = await startWithKeys(keys, { effectiveSettings: async () => known });
    expect((await call(secrets.boss, '/admin/settings')).json()).toEqual({ object: 'settings', ...known });
    expect((await call(secrets.ann, '/admin/settings')).statusCode).toBe(403);
    expect((await call(undefined, '/admin/settings')).statusCode).toBe(401);
  });

  it('shows them on this machine as long as there are no keys', async () => {
    const { app } = await start({ effectiveSettings: async () => known });
    expect((await app.inject({ url: '/admin/settings' })).statusCode).toBe(200);
    const elsewhere = await app.inject({ url: '/admin/settings', remoteAddress: '192.0.2.1' });
    expect(elsewhere.statusCode).toBe(401);
  });
});
