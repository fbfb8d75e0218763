// The waiting requests: in which queue, for how long, and for what.

import type { Queue, WaitingSequence } from '../../../src/engine/live/snapshot.ts';
import { TierMark } from '../shell/marks.tsx';
import { hashOf } from '../shell/route.ts';
import { Headings, ScrollBox } from '../shell/table.tsx';
import { count, counted, duration, shortId } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

const BLOCK_TOKENS = 32;

/** What a request waits for, with the numbers that decide it. */
function reasonOf(
  { why, tokens }: WaitingSequence,
  before: number,
  freeBlocks: number,
  running: number,
): string {
  const needed = Math.ceil((tokens + 1) / BLOCK_TOKENS);
  switch (why) {
    case 'queue':
      return before === 0
        ? `next to run, once one of ${counted(running, 'running sequence')} ends or a step has room`
        : `${count(before)} before it in the queues`;
    case 'blocks':
      return `needs ${counted(needed, 'block')}; ${count(freeBlocks)} ${freeBlocks === 1 ? 'is' : 'are'} free`;
    case 'prefix':
      return 'a running request computes the same prompt; it will share its blocks';
    case 'image':
      return 'its images are being looked at';
    case 'preempted':
      return `was preempted; resumes with ${counted(needed, 'block')}, ${count(freeBlocks)} free`;
  }
}

const MOST_SHOWN = 100;

interface QueuesProps {
  readonly queues: readonly Queue[];
  /** In the order in which they run. */
  readonly waiting: readonly WaitingSequence[];
  readonly freeBlocks: number;
  readonly running: number;
}

export function Queues({ queues, waiting, freeBlocks, running }: QueuesProps) {
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
              {waiting.slice(0, MOST_SHOWN).map((request, before) => (
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
                  <td>{reasonOf(request, before, freeBlocks, running)}</td>
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
