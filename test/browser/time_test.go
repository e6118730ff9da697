package browser

import (
	"fmt"
	"testing"
	"time"
)

// work is a fixed piece of work for the same browser: numbers, objects, layout and a
// canvas, which is what a page is opened with. It gives the milliseconds that it took.
const work = `(() => {
	const start = performance.now();
	let sum = 0;
	for (let i = 0; i < 2e6; i++) sum += Math.sqrt(i) % 7;
	const rows = JSON.parse(JSON.stringify(Array.from({length: 2e4}, (_, i) => ({i, name: "row " + i, half: i / 2}))));
	const box = document.createElement("div");
	box.innerHTML = rows.slice(0, 3000).map((r) => "<p>" + r.name + "</p>").join("");
	document.body.append(box);
	sum += box.getBoundingClientRect().height;
	const canvas = document.createElement("canvas");
	canvas.width = 1000; canvas.height = 300;
	const c = canvas.getContext("2d");
	for (let i = 0; i < 3000; i++) { c.beginPath(); c.moveTo(i % 1000, 0); c.lineTo(1000 - i % 1000, 300); c.stroke(); }
	sum += c.getImageData(0, 0, 1, 1).data[3];
	box.remove();
	return performance.now() - start + 0 * sum;
})()`

// bound is how many pieces of that work two seconds are, on the machine that the two
// seconds were asked for.
const bound = 12.0

// opensInTime: from the start of the navigation to the drawn page it takes no longer
// than so many pieces of work. Both are the best of some tries, since a noisy
// neighbour makes them longer and nothing makes them shorter.
func opensInTime(t *testing.T, file string, tries int) []string {
	t.Helper()
	v := view{width: 1280, unwatched: true}
	piece, opened := time.Hour, time.Hour
	for range tries {
		p := open(t, file, v)
		opened = min(opened, milliseconds(ask[float64](t, p, `browserSeen.drawnAt`)))
		p.leave(t)
		piece = min(piece, milliseconds(ask[float64](t, p, work)))
	}
	ratio := float64(opened) / float64(piece)
	t.Logf("opened and drawn in %v, %.1f pieces of work of %v each; %.0f are allowed", opened.Round(time.Millisecond), ratio, piece.Round(time.Millisecond), bound)
	if ratio > bound {
		return []string{fmt.Sprintf("it takes %.1f pieces of work to open, and %.0f are allowed", ratio, bound)}
	}
	return nil
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
