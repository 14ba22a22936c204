// Command wire carries IP packets between a TUN device of one network namespace and one of another, with a delay
// and until it is cut:
//
//	wire NAMESPACE DEVICE NAMESPACE DEVICE
//
// It makes the devices, which go with it, and leaves addresses and routes to others. Commands come in on standard
// input as lines of JSON, {"delayMs": 10} for the delay in each direction, {"cut": true} and {"cut": false}, or {}
// to only ask. Each is answered by one line with the state and counters. The end of the input ends the program.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"
)

type command struct {
	DelayMs *float64 `json:"delayMs"`
	Cut     *bool    `json:"cut"`
}

type status struct {
	DelayMs float64 `json:"delayMs"`
	Cut     bool    `json:"cut"`
	Packets int64   `json:"packets"`
	Bytes   int64   `json:"bytes"`
	Dropped int64   `json:"dropped"`
}

type failure struct {
	Error string `json:"error"`
}

// The first thread stays in the namespace of the start, which is the one that the process is listed in.
func init() {
	runtime.LockOSThread()
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: wire NAMESPACE DEVICE NAMESPACE DEVICE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(1)
	}
}

func run(leftNamespace, leftDevice, rightNamespace, rightDevice string) error {
	left, err := openDevice(leftNamespace, leftDevice)
	if err != nil {
		return err
	}
	right, err := openDevice(rightNamespace, rightDevice)
	if err != nil {
		return err
	}
	line := &line{}
	failed := make(chan error, 2)
	go func() { failed <- line.carry(left, right) }()
	go func() { failed <- line.carry(right, left) }()
	commanded := make(chan error, 1)
	go func() { commanded <- obey(line) }()
	select {
	case err := <-failed:
		return err
	case err := <-commanded:
		return err
	}
}

// obey reads commands until the end of the input.
func obey(line *line) error {
	input := bufio.NewScanner(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var answer any
		if err := apply(line, input.Bytes()); err != nil {
			answer = failure{Error: err.Error()}
		} else {
			answer = line.status()
		}
		if err := output.Encode(answer); err != nil {
			return err
		}
	}
	return input.Err()
}

func apply(line *line, text []byte) error {
	var wanted command
	if err := json.Unmarshal(text, &wanted); err != nil {
		return fmt.Errorf("%q is no command: %w", text, err)
	}
	if wanted.DelayMs != nil {
		if *wanted.DelayMs < 0 {
			return fmt.Errorf("a delay of %v ms is not possible", *wanted.DelayMs)
		}
		line.delay.Store(int64(*wanted.DelayMs * float64(time.Millisecond)))
	}
	if wanted.Cut != nil {
		line.cut.Store(*wanted.Cut)
	}
	return nil
}
