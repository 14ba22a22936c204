package main

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// largestPacket is above the devices' MTU, which is the 1500 that the kernel gives them.
	largestPacket = 2048
	// heldPackets bounds what is under way in each direction: 12 MB, or 50 ms at 2 Gbit/s.
	heldPackets = 8192
)

// line is what both directions have in common.
type line struct {
	delay   atomic.Int64 // in nanoseconds
	cut     atomic.Bool
	packets atomic.Int64
	bytes   atomic.Int64
	dropped atomic.Int64
}

type packet struct {
	content []byte
	due     time.Time
}

func (l *line) status() status {
	return status{
		DelayMs: float64(l.delay.Load()) / float64(time.Millisecond),
		Cut:     l.cut.Load(),
		Packets: l.packets.Load(),
		Bytes:   l.bytes.Load(),
		Dropped: l.dropped.Load(),
	}
}

// carry moves packets in one direction, in their order, until the source fails.
func (l *line) carry(from, to *os.File) error {
	underWay := make(chan packet, heldPackets)
	free := make(chan []byte, heldPackets)
	go l.deliver(underWay, free, to)
	for {
		buffer := take(free)
		size, err := from.Read(buffer)
		if errors.Is(err, syscall.EIO) {
			// The device has not been set up yet, or was set down.
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			return fmt.Errorf("reading from %s: %w", from.Name(), err)
		}
		due := time.Now().Add(time.Duration(l.delay.Load()))
		select {
		case underWay <- packet{buffer[:size], due}:
		default:
			l.dropped.Add(1)
		}
	}
}

// deliver hands on each packet when it is due. A packet that comes after one with a longer delay waits for it.
func (l *line) deliver(underWay <-chan packet, free chan<- []byte, to *os.File) {
	for packet := range underWay {
		time.Sleep(time.Until(packet.due))
		if l.cut.Load() {
			l.dropped.Add(1)
		} else if _, err := to.Write(packet.content); err != nil {
			// The device at the other end is down: a packet is lost there as on any network.
			l.dropped.Add(1)
		} else {
			l.packets.Add(1)
			l.bytes.Add(int64(len(packet.content)))
		}
		select {
		case free <- packet.content[:largestPacket]:
		default:
		}
	}
}

func take(free <-chan []byte) []byte {
	select {
	case buffer := <-free:
		return buffer
	default:
		return make([]byte, largestPacket)
	}
}
