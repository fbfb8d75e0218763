// Who rides now, seat by seat.

import type { Rider } from '../../../src/server/live/live-event.ts';
import { Headings } from '../shell/headings.tsx';
import { hashOf } from '../shell/route.ts';
import { ScrollBox } from '../shell/scroll-box.tsx';
import { Swatch } from '../shell/swatch.tsx';
import { TierMark } from '../shell/tier-mark.tsx';
import { count, duration, shortId } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { RIDER_COLOURS } from './palette.ts';

export function RidersTable({ riders }: { readonly riders: readonly Rider[] }) {
  return (
    <div class="riders">
      <h3>Riders</h3>
      {riders.length === 0 ? (
        <p class="empty">Every seat is empty.</p>
      ) : (
        <ScrollBox name="Riders" cut>
          <table class="data">
            <Headings
              columns={[
                'Seat',
                'Request',
                'Tier',
                'Does',
                { number: 'Prompt' },
                { number: 'Cached' },
                { number: 'Tokens' },
                { number: 'Blocks' },
                { number: 'Age' },
              ]}
            />
            <tbody>
              {[...riders]
                .sort((a, b) => a.seat - b.seat)
                .map((rider) => (
                  <tr key={rider.seat}>
                    <td class="nowrap">
                      <Swatch colour={`--rider-${rider.seat % RIDER_COLOURS}`} /> {rider.seat}
                    </td>
                    <td>
                      <a href={hashOf({ view: 'requests', id: rider.requestId })}>
                        <SafeText text={shortId(rider.requestId)} />
                      </a>
                    </td>
                    <td>
                      <TierMark tier={rider.tier} />
                    </td>
                    <td class="nowrap">{rider.phase === 'prefill' ? 'its prompt' : 'decodes'}</td>
                    <td class="number">{count(rider.promptTokens)}</td>
                    <td class="number">{count(rider.cachedTokens)}</td>
                    <td class="number">{count(rider.tokens)}</td>
                    <td class="number">{count(rider.blocks)}</td>
                    <td class="number nowrap">{duration(rider.ageMs)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
    </div>
  );
}
