//go:build !linux

package load

import "errors"

const haveLoop = false

func newLoopWire(*run) (wire, error) {
	return nil, errors.New("the event loop needs Linux")
}
