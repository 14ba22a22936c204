package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// openDevice makes a TUN device in a namespace that `ip netns` has named. A device stays in the namespace in which
// it was opened, while the file may be used from anywhere.
func openDevice(namespace, name string) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	done := make(chan result)
	go func() {
		// Never unlocked: the thread is in the other namespace and ends with this function.
		runtime.LockOSThread()
		file, err := openDeviceOnThread(namespace, name)
		done <- result{file, err}
	}()
	opened := <-done
	if opened.err != nil {
		return nil, fmt.Errorf("device %s in namespace %s: %w", name, namespace, opened.err)
	}
	return opened.file, nil
}

func openDeviceOnThread(namespace, name string) (*os.File, error) {
	place, err := unix.Open(filepath.Join("/run/netns", namespace), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(place)
	if err := unix.Setns(place, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("entering: %w", err)
	}
	// Not blocking, so that readers wait in Go's poller and hold no thread.
	device, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(device, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(device)
		return nil, err
	}
	return os.NewFile(uintptr(device), name), nil
}
