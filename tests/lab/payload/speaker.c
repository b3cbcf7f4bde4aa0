/*
 * Lets the emulated CPUs take turns quickly, by turning the PC's speaker on.
 *
 * QEMU runs the CPUs of a guest that counts instructions one after the other.  A turn lasts until
 * the next of its own timers is due, at most, and the guest's clock goes on meanwhile: a CPU finds
 * itself milliseconds later when another one works without a pause.  While the speaker is on, QEMU
 * has a timer for its sound (option timer-period of -audiodev), so turns are no longer than that.
 * The guest has no work with it.
 */
#include <stdio.h>

#ifdef __x86_64__
#include <sys/io.h>

int main(void)
{
	if (iopl(3)) {
		perror("iopl");
		return 1;
	}
	outb(inb(0x61) | 3, 0x61);
	return 0;
}
#else
int main(void)
{
	fprintf(stderr, "speaker: only a PC has one\n");
	return 1;
}
#endif
