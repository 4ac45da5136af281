// Sessions of visitors in a heap of V8, looked up by Zipf's law. Each line read asks for so many look-ups.
//
// All garbage is collected after so many of them. Left to itself, V8 goes by how long collections take, so that of two that
// do the same, one collects within a minute and the other does not.
'use strict';

const count = Number(process.argv[2]);
const SKEW = 0.99;
const LOOK_UPS = 4000000;
let state = 1;
function random() {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
}

const upTo = new Float64Array(count);
const idOf = new Int32Array(count);
let sum = 0;
for (let rank = 0; rank < count; rank++) {
    sum += Math.pow(rank + 1, -SKEW);
    upTo[rank] = sum;
    const other = Math.floor(random() * (rank + 1));
    idOf[rank] = idOf[other];
    idOf[other] = rank;
}
const sessions = new Map();
for (let id = 0; id < count; id++) {
    const pages = [];
    for (let nth = 0; nth < 8; nth++) {
        pages.push({ path: '/articles/' + Math.floor(random() * 1e6), seconds: nth * 7 });
    }
    sessions.set('session-' + id, { user: 'user' + id, language: 'en', visits: 0, pages });
}
function draw() {
    const at = random() * sum;
    let low = 0;
    let high = count - 1;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (upTo[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return idOf[low];
}
let done = 0;
function look(times) {
    let seconds = 0;
    for (let nth = 0; nth < times; nth++) {
        if (++done % LOOK_UPS === 0) {
            global.gc();
        }
        const session = sessions.get('session-' + draw());
        session.visits += 1;
        for (const page of session.pages) {
            seconds += page.seconds + page.path.length;
        }
        session.pages[session.visits % 8] = { path: '/articles/' + nth, seconds: nth % 60 };
    }
    return seconds;
}
process.stdout.write('ready\n');
require('readline').createInterface({ input: process.stdin }).on('line', line => {
    look(Number(line));
    process.stdout.write('done\n');
});
