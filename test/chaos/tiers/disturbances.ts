// What happens to servers that share a folder of KV blocks, and to the folder, while they answer. Each disturbance says what it did.

import { rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Chance } from '../chance.ts';
import type { Timeline } from '../timeline.ts';
import type { CacheFolder } from './cache-folder.ts';
import type { CacheServer, CacheSettings } from './cache-server.ts';
import type { FullDisk } from './full-disk.ts';

export interface Scene {
  readonly servers: readonly CacheServer[];
  readonly folder: CacheFolder;
  readonly fullDiskFile: string;
  readonly timeline: Timeline;
  settings: CacheSettings;
  /** Flipped bytes and broken segments that the folder may still have. */
  flips: number;
  /** A server ended in good order with another exit code than 0, or not in time. */
  readonly onBadStop: (detail: string) => void;
  readonly onBadCommand: (detail: string) => void;
}

type Disturbance = (scene: Scene, chance: Chance) => Promise<void>;

const killServer: Disturbance = async ({ servers, settings, timeline }, chance) => {
  const server = chance.pick(servers);
  timeline.note('server killed', server.name);
  await server.kill();
  await sleep(chance.below(1000));
  await server.start(settings);
};

const restartServer: Disturbance = async ({ servers, settings, timeline, onBadStop }, chance) => {
  const server = chance.pick(servers);
  timeline.note('server stopped', server.name);
  const code = await server.stop();
  if (code !== 0) onBadStop(`${server.name}: ${code}\n${server.recent()}`);
  await server.start(settings);
};

const killBoth: Disturbance = async ({ servers, settings, timeline }) => {
  timeline.note('both servers killed');
  await Promise.all(servers.map((server) => server.kill()));
  await Promise.all(servers.map((server) => server.start(settings)));
};

const killEngine: Disturbance = async ({ servers, timeline }, chance) => {
  const server = chance.pick(servers);
  timeline.note('engine killed', server.name);
  await server.signalEngines('SIGKILL');
};

const holdEngine: Disturbance = async ({ servers, timeline }, chance) => {
  const server = chance.pick(servers);
  timeline.note('engine held', server.name);
  await server.signalEngines('SIGSTOP');
  await sleep(100 + chance.below(1500));
  await server.signalEngines('SIGCONT');
};

const fillDisk: Disturbance = async ({ fullDiskFile, timeline }, chance) => {
  const how = chance.pick<FullDisk>(['no room', 'broken writes']);
  timeline.note('disk full', how);
  writeFileSync(fullDiskFile, how);
  await sleep(300 + chance.below(4000));
  rmSync(fullDiskFile, { force: true });
};

const flipBits: Disturbance = async (scene, chance) => {
  for (let rest = chance.between(1, 4); rest > 0; rest--) {
    // Counted before, for it may be read at once.
    scene.flips += 1;
    const where = scene.folder.flipAnywhere(chance);
    if (where === undefined) scene.flips -= 1;
    else scene.timeline.note('bits flipped', where);
  }
};

const deleteFolder: Disturbance = async ({ folder, timeline }) => {
  timeline.note('folder deleted');
  folder.removeAll();
};

const deleteFile: Disturbance = async ({ folder, timeline }, chance) => {
  const path = folder.removeFile(chance);
  if (path !== undefined) timeline.note('file deleted', path);
};

const useCommand: Disturbance = async ({ folder, timeline, onBadCommand }, chance) => {
  const [args, ends] = chance.weighted<readonly [string[], readonly number[]]>([
    [2, [['ls'], [0]]],
    [2, [['verify'], [0, 1]]],
    [1, [['rm', '--all'], [0]]],
    [1, [['rm', '--older-than', '0.0001'], [0]]],
  ]);
  timeline.note('command', args.join(' '));
  const { code, errors } = await folder.command(...args);
  if (code === undefined || !ends.includes(code))
    onBadCommand(`cache ${args.join(' ')} ended with ${code}: ${errors}`);
};

const deck: readonly (readonly [weight: number, Disturbance])[] = [
  [5, killServer],
  [3, restartServer],
  [1, killBoth],
  [6, killEngine],
  [2, holdEngine],
  [4, fillDisk],
  [4, flipBits],
  [2, deleteFolder],
  [2, deleteFile],
  [3, useCommand],
];

/** One after the other, until then. */
export async function disturb(scene: Scene, chance: Chance, untilMs: number): Promise<void> {
  while (performance.now() < untilMs) {
    await sleep(chance.below(2500));
    await chance.weighted(deck)(scene, chance);
  }
}
