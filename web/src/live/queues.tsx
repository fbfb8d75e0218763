// The waiting requests: in which queue, for how long, and for what.

import type { Queue, WaitingSequence } from '../../../src/engine/live/snapshot.ts';
import { TierMark } from '../shell/marks.tsx';
import { hashOf } from '../shell/route.ts';
import { Headings, ScrollBox } from '../shell/table.tsx';
import { count, duration, shortId } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

const reasons: Readonly<Record<WaitingSequence['why'], string>> = {
  queue: 'others came first',
  blocks: 'too few blocks are free',
  prefix: 'another request computes the same prompt now; it waits for that',
  preempted: 'was preempted; waits to be resumed',
};

const MOST_SHOWN = 100;

interface QueuesProps {
  readonly queues: readonly Queue[];
  readonly waiting: readonly WaitingSequence[];
}

export function Queues({ queues, waiting }: QueuesProps) {
  return (
    <div class="queues">
      <h3>Queues</h3>
      <ul class="queue-list">
        {queues.map(({ tier, waiting: number, oldestMs, expectedMs }) => (
          <li key={tier}>
            <TierMark tier={tier} />
            <b class="figure-value">{count(number)}</b>
            <span class="quiet">
              {number > 0 ? `oldest ${duration(oldestMs)}` : 'none waits'}
              {expectedMs !== undefined && ` · a new request waits ${duration(expectedMs)}`}
            </span>
          </li>
        ))}
      </ul>
      {waiting.length > 0 && (
        <ScrollBox name="Waiting requests" cut>
          <table class="data">
            <Headings columns={['Request', 'Tier', { number: 'Tokens' }, { number: 'Waits' }, 'Why']} />
            <tbody>
              {waiting.slice(0, MOST_SHOWN).map((request) => (
                <tr key={request.requestId}>
                  <td>
                    <a href={hashOf({ view: 'requests', id: request.requestId })}>
                      <SafeText text={shortId(request.requestId)} />
                    </a>
                  </td>
                  <td>
                    <TierMark tier={request.tier} />
                  </td>
                  <td class="number">{count(request.tokens)}</td>
                  <td class="number nowrap">{duration(request.ageMs)}</td>
                  <td>{reasons[request.why]}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
      {waiting.length > MOST_SHOWN && <p class="quiet">and {count(waiting.length - MOST_SHOWN)} more</p>}
    </div>
  );
}
