crane copy busybox:latest "$mirror/busybox"
