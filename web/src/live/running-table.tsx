// The running sequences, lane by lane.

import type { RunningSequence } from '../../../src/engine/live/snapshot.ts';
import { Headings } from '../shell/headings.tsx';
import { hashOf } from '../shell/route.ts';
import { ScrollBox } from '../shell/scroll-box.tsx';
import { Swatch } from '../shell/swatch.tsx';
import { TierMark } from '../shell/tier-mark.tsx';
import { count, duration, shortId } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { LANE_COLOURS } from './palette.ts';

export function RunningTable({ running }: { readonly running: readonly RunningSequence[] }) {
  return (
    <div class="running">
      <h3>Running sequences</h3>
      {running.length === 0 ? (
        <p class="empty">No sequence is running.</p>
      ) : (
        <ScrollBox name="Running sequences" cut>
          <table class="data">
            <Headings
              columns={[
                'Lane',
                'Request',
                'Tier',
                'Phase',
                { number: 'Prompt' },
                { number: 'Cached' },
                { number: 'Tokens' },
                { number: 'Blocks' },
                { number: 'Age' },
              ]}
            />
            <tbody>
              {[...running]
                .sort((a, b) => a.lane - b.lane)
                .map((sequence) => (
                  <tr key={sequence.lane}>
                    <td class="nowrap">
                      <Swatch colour={`--lane-${sequence.lane % LANE_COLOURS}`} /> {sequence.lane}
                    </td>
                    <td>
                      <a href={hashOf({ view: 'requests', id: sequence.requestId })}>
                        <SafeText text={shortId(sequence.requestId)} />
                      </a>
                    </td>
                    <td>
                      <TierMark tier={sequence.tier} />
                    </td>
                    <td class="nowrap">{sequence.phase === 'prefill' ? 'prefill' : 'decode'}</td>
                    <td class="number">{count(sequence.promptTokens)}</td>
                    <td class="number">{count(sequence.cachedTokens)}</td>
                    <td class="number">{count(sequence.tokens)}</td>
                    <td class="number">{count(sequence.blocks)}</td>
                    <td class="number nowrap">{duration(sequence.ageMs)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
    </div>
  );
}
