// 10,000 kills with CHAIRLIFT_TESTS=all, a share of them in every run.

import { describe, expect, it } from 'vitest';
import { cases } from '../support/thorough.ts';
import { type EpisodeCounts, runEpisode } from './crash-episode.ts';

const KILLS = cases(10_000, 0.01);

describe('a store of blocks on a disk that fails', () => {
  it('opens after a kill or a loss of power at any byte, and never has a wrong block', {
    timeout: 3_600_000,
  }, () => {
    const sum: EpisodeCounts = { kills: 0, losses: 0, blocks: 0, damaged: 0, flips: 0, full: 0 };
    for (let seed = 1; sum.kills < KILLS; seed++) {
      const counts = runEpisode(seed);
      for (const name of Object.keys(sum) as (keyof EpisodeCounts)[]) sum[name] += counts[name];
    }
    // All that could happen has.
    for (const [name, count] of Object.entries(sum)) expect(count, name).toBeGreaterThan(KILLS / 100);
    if (KILLS > 1000) console.log(JSON.stringify(sum));
  });
});
